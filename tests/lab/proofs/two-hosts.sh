#!/bin/bash
# Stands for: two GPU servers that train together, each with a GPU given to a VM of one tenant.
# Shows: virtrain run, on the first of two first levels, starts virtrain-host on both by ssh; each passes its own device to its own
#   VM; the ranks of the tenant's two VMs train over a VXLAN between the hosts; both devices are in a VM at the same time and back
#   at the end, and nothing is left on either host.
# Cannot show: what a real network carries: frames go from one emulator to the other; the devices are NVMe disks.
# L1: boot=hosts product=yes images=yes memory=3G seconds=900 hosts=2
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
. ./support/two_hosts.sh
device=0000:00:11.0
become_host 1
for ((i = 0; i < 120; i++)); do ! on_second true 2> /dev/null || break; sleep 2; done
trap 'on_second touch /lab/over' EXIT
check "the second host answers" on_second true
state_of_second() { on_second python3 support/host_state.py; }
before=$(host_state) before_second=$(state_of_second)
cat > /lab/hosts.yaml <<YAML
hosts:
  - {name: lab-1, network: {kind: vxlan, name: $link_nic}}
  - {name: lab-2, network: {kind: vxlan, name: $link_nic}}
YAML
scenario both "{kind: passthrough, select: {address: [\"$device\"]}}" \
  '[{name: both, tenants: [{nodes: 2, gpus_per_node: 1, spread: hosts}]}]' '[vm]'
sed -i 's/, steps: 2/, steps: 1/; $a hosts: hosts.yaml' /lab/both.yaml
on_second "echo \$\$ > watcher && exec python3 support/watch_devices.py $device" > /lab/second.watch & watcher=$!
check "one tenant with a VM and a device on each host" watched both $device
on_second 'kill $(cat watcher)'
wait $watcher || true
expect "trial" "vm finished kvm_on_emulated 1" "$(trials both 'arm, status, virtualization, valid' | xargs)"
expect "nodes" "lab-1 t1n1 lab-2 t1n2" "$(sqlite3 -separator ' ' /lab/both.db \
  "SELECT host, name FROM node ORDER BY 1" | xargs)"
expect "transport" tcp "$(sqlite3 /lab/both.db 'SELECT transport FROM tenant')"
check "the first host's device in a VM" grep -q "^$device virtual-machines vfio-pci 1" /lab/both.watch
check "the second host's device in a VM" grep -q "^$device virtual-machines vfio-pci 1" /lab/second.watch
check "nothing is left" virtrain clean --verify --hosts /lab/hosts.yaml
unchanged "the first host afterwards" "$before"
host_state() { state_of_second; }
unchanged "the second host afterwards" "$before_second"
finish
