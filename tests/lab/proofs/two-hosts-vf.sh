#!/bin/bash
# Stands for: two servers whose nodes talk over virtual functions of their Ethernet NICs.
# Shows: virtrain run over two first levels with an emulated 82576 each: in both arms the ranks of a tenant's two nodes train over
#   virtual functions. A slice has its function's interface as eth0, a VM the function itself by vfio-pci, with the address of the
#   plan; NIC and function are as they were at the end, after kill -9 by virtrain clean.
# Cannot show: speed, and what other NICs' drivers do: frames go from one emulator to the other.
# L1: boot=hosts-vf product=yes images=yes memory=2560M seconds=900 hosts=2 sriov_nic=yes label=release
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
. ./support/two_hosts.sh
become_host 1
for ((i = 0; i < 120; i++)); do ! on_second true 2> /dev/null || break; sleep 2; done
at_end() {
  local rc=$?
  [ $rc = 0 ] || { echo "the kernel's log:"; dmesg | grep igb | tail -n 40; }
  on_second touch /lab/over
}
trap at_end EXIT
check "the second host answers" on_second true
make_functions 1
on_second ". support/proof.sh; . support/two_hosts.sh; make_functions 2"
echo "note  $data_nic, its virtual function $vf with $(ls "/sys/bus/pci/devices/$vf/net"), group $(group "$vf"): $(members "$(group "$vf")")"
expect "driver of the function" igbvf "$(driver "$vf")"
expect "its address" 52:54:00:1a:b2:01 "$(cat "/sys/bus/pci/devices/$vf/net"/*/address)"
cat > /lab/hosts.yaml <<YAML
hosts:
  - {name: lab-1, network: {kind: vf, name: $data_nic}}
  - {name: lab-2, network: {kind: vf, name: $data_nic}}
YAML
over_functions() { # NAME ARMS
  scenario "$1" '{kind: none}' "[{name: $1, tenants: [{nodes: 2, spread: hosts}]}]" "$2"
  sed -i 's/, steps: 2/, steps: 1/; $a hosts: hosts.yaml' "/lab/$1.yaml"
}
state_of_second() { on_second ". support/two_hosts.sh; data_nic=$data_nic; vf=$vf; state_of_function"; }
before=$(state_of_function) before_second=$(state_of_second)
as_before() { # WHEN
  host_state() { state_of_function; }
  unchanged "first host, NIC and function $1" "$before"
  host_state() { state_of_second; }
  unchanged "second host, NIC and function $1" "$before_second"
}

over_functions both '[bare_metal, vm]'
check "a tenant with a node on each host" watched both "$vf"
expect "trials" "bare_metal finished none 1 vm finished kvm_on_emulated 1" \
  "$(trials both 'arm, status, virtualization, valid' | xargs)"
facts() { sqlite3 -separator ' ' /lab/both.db "SELECT DISTINCT value FROM fingerprint WHERE node_id IS NOT NULL AND key = '$1'"; }
expect "network of nodes" vf "$(facts network_medium)"
expect "driver of their eth0" igbvf "$(facts nic_driver)"
expect "addresses" 2 "$(facts nic_mac | grep -c '^52:54:00:')"
check "the function in a slice" grep -q "^$vf bare-metal igbvf" /lab/both.watch
check "the function in a VM" grep -q "^$vf virtual-machines vfio-pci 1" /lab/both.watch
check "nothing is left" virtrain clean --verify --hosts /lab/hosts.yaml
as_before "after the run"

over_functions killed '[bare_metal]'
virtrain -v run /lab/killed.yaml --db /lab/killed.db > /lab/killed.log 2>&1 & pid=$!
for ((i = 0; i < 400; i++)); do ! grep -q "stage=run " /lab/killed.log && kill -0 $pid 2> /dev/null || break; sleep 0.3; done
check "a trial runs" grep -q "stage=run " /lab/killed.log
pkill -STOP -x virtrain-host # none sees the others go
on_second pkill -STOP -x virtrain-host
kill -9 $pid
pkill -9 -x virtrain-host
on_second pkill -9 -x virtrain-host
wait $pid 2> /dev/null || true
check "the function is left with the trial's address" \
  test "$(ip link show dev "$data_nic" | grep -c 'vf 0 ') $(ip link show dev "$data_nic" | grep -c 52:54:00:1a:b2:01)" = "1 0"
virtrain clean --hosts /lab/hosts.yaml || true # 6: it marks no experiment in a database that is not the default one
check "nothing is left after clean" virtrain clean --verify --hosts /lab/hosts.yaml
as_before "after clean"
finish
