#!/bin/bash
# Stands for: a device that one tenant's VM gets after another's.
# Shows: a passed-through NVMe disk keeps a tenant's bytes for the next one, whether the first VM is torn down or its QEMU killed
#   (kill -9): virtrain isolate --security finds all of them and names the cure; with between_tenants: erase it finds none.
# Cannot show: the memory of a GPU, which is reached through CUDA; a disk that has a hidden region of its own.
# L1: product=yes images=yes memory=4G seconds=1700
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
disk=0000:00:11.0
before=$(host_state)
# probed NAME POLICY: the security probes of a scenario that lends the disk; result and control of those of its memory.
probed() {
  scenario "$1" "{kind: passthrough, select: {address: [\"$disk\"]}, between_tenants: $2}" \
    '[{name: one, tenants: [{nodes: 1, gpus_per_node: 1}]}]' '[vm]'
  virtrain -v isolate --security "/lab/$1.yaml" --db "/lab/$1.db" > "/lab/$1.table" 2> "/lab/$1.log" || fail "$1: exit status $?"
  cat "/lab/$1.table"
  results=$(sqlite3 -separator ' ' "/lab/$1.db" \
    "SELECT name, result, control, scanned = total FROM v_security WHERE name LIKE 'device_memory%' ORDER BY name" | xargs)
}
blkdiscard --zeroout "$(disk_of $disk)" # its first block says lab-disk-0: the probes leave a disk with data alone
probed keeps none
expect "without a policy" "device_memory leak 1 1 device_memory_killed leak 1 1" "$results"
expect "leaks that name the cure" 2 "$(sqlite3 /lab/keeps.db \
  "SELECT count(*) FROM v_security WHERE name LIKE 'device_memory%' AND reason LIKE '%between_tenants: erase%'")"
expect "tenants' words on the host's disk" yes "$(grep -qa vt-canary- "$(disk_of $disk)" && echo yes || echo no)"
unchanged "the host afterwards" "$before"
probed erased erase
expect "with between_tenants: erase" "device_memory not_found 1 1 device_memory_killed not_found 1 1" "$results"
unchanged "the host afterwards" "$before"
finish
