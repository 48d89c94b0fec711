# shellcheck shell=bash
# What a tenant's VM leaves in a lent device, by virtrain's own probes. Sourced after product.sh.

disk=0000:00:11.0
# Its first block says lab-disk-0, and the probes leave a disk with data alone.
zero_disk() { blkdiscard --zeroout "$(disk_of $disk)"; }

# whole ADDRESS POLICY: `devices` of a scenario that lends that function.
whole() { echo "{kind: passthrough, select: {address: [\"$1\"]}, between_tenants: $2}"; }
# probed NAME DEVICES: the leak searches of a scenario that lends one of the devices; result and control of those of its memory.
probed() {
  scenario "$1" "$2" '[{name: one, tenants: [{nodes: 1, gpus_per_node: 1}]}]' '[vm]'
  virtrain -v isolate --security --devices-only "/lab/$1.yaml" --db "/lab/$1.db" > "/lab/$1.table" 2> "/lab/$1.log" ||
    { cat "/lab/$1.log"; fail "$1: exit status $?"; }
  cat "/lab/$1.table"
  results=$(sqlite3 -separator ' ' "/lab/$1.db" "SELECT name, result, control, scanned = total FROM v_security WHERE name LIKE 'device_memory%' ORDER BY name" | xargs)
}
# probe_of NAME PROBE COLUMNS: separated by blanks.
probe_of() { sqlite3 -separator ' ' "/lab/$1.db" "SELECT $3 FROM v_security WHERE name = '$2'"; }
# cures NAME WORDS: how many leaks name it.
cures() { sqlite3 "/lab/$1.db" "SELECT count(*) FROM v_security WHERE result = 'leak' AND reason LIKE '%$2%'"; }
leaks="device_memory leak 1 1 device_memory_killed leak 1 1 device_memory_run_killed leak 1 1 device_memory_shutdown leak 1 1"
