#!/bin/bash
# Stands for: a device that one tenant's VM gets after another's.
# Shows: a passed-through NVMe disk keeps a tenant's bytes for the next one, whether the first VM is torn down, its QEMU is killed
#   (kill -9) or virtrain itself: virtrain isolate --security finds all of them and names the cure; with between_tenants: erase it finds
#   none. A device whose memory is a prefetchable region keeps it through a reset, and is said to be for one tenant only.
# Cannot show: the memory of a GPU, which is reached through CUDA; a disk that has a hidden region of its own.
# L1: product=yes images=yes memory=4G region=yes seconds=1700
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
disk=0000:00:11.0
region=0000:03:00.0
before=$(host_state)
# probed NAME DEVICE POLICY: the security probes of a scenario that lends the device; result and control of those of its memory.
probed() {
  scenario "$1" "{kind: passthrough, select: {address: [\"$2\"]}, between_tenants: $3}" \
    '[{name: one, tenants: [{nodes: 1, gpus_per_node: 1}]}]' '[vm]'
  virtrain -v isolate --security --devices-only "/lab/$1.yaml" --db "/lab/$1.db" > "/lab/$1.table" 2> "/lab/$1.log" ||
    { cat "/lab/$1.log"; fail "$1: exit status $?"; }
  cat "/lab/$1.table"
  results=$(sqlite3 -separator ' ' "/lab/$1.db" "SELECT name, result, control, scanned = total FROM v_security ORDER BY name" | xargs)
}
# cures NAME WORDS: how many leaks name it.
cures() { sqlite3 "/lab/$1.db" "SELECT count(*) FROM v_security WHERE result = 'leak' AND reason LIKE '%$2%'"; }
leaks="device_memory leak 1 1 device_memory_killed leak 1 1 device_memory_run_killed leak 1 1"
blkdiscard --zeroout "$(disk_of $disk)" # its first block says lab-disk-0: the probes leave a disk with data alone
probed keeps $disk none
expect "without a policy" "$leaks" "$results"
expect "leaks that name the cure" 3 "$(cures keeps "between_tenants: erase")"
expect "tenants' words on the host's disk" yes "$(grep -qa vt-canary- "$(disk_of $disk)" && echo yes || echo no)"
unchanged "the host afterwards" "$before"
probed erased $disk erase
expect "with between_tenants: erase" "${leaks//leak/not_found}" "$results"
unchanged "the host afterwards" "$before"
probed reset $region reset
expect "a memory region with between_tenants: reset" "$leaks" "$results"
expect "leaks that name no cure" 3 "$(cures reset "reset did not clear it: lend it to one tenant only")"
unchanged "the host afterwards" "$before"
finish
