# shellcheck shell=bash
# Two first levels with a NIC between them, each a host. Sourced after proof.sh.

# become_host NUMBER: the first or second of them, lab-NUMBER at 10.91.0.NUMBER, with an sshd and a trainer whose ranks exchange
# gradients; sets link_nic.
become_host() {
  local file
  file=$(grep -l '^52:54:00:1a:b0:0' /sys/class/net/*/address)
  link_nic=$(basename "$(dirname "$file")")
  hostname "lab-$1"
  printf '127.0.0.1 localhost\n10.91.0.1 lab-1\n10.91.0.2 lab-2\n' > /etc/hosts
  ip address add "10.91.0.$1/24" dev "$link_nic"
  ip link set "$link_nic" up
  cp /usr/bin/virtrain-quick-trainer /usr/bin/virtrain-resnet50-cpu
  mkdir -p -m 700 /root/.ssh /run/sshd
  install -m 600 ssh/key /root/.ssh/id_ed25519
  install -m 600 ssh/key.pub /root/.ssh/authorized_keys
  echo 'StrictHostKeyChecking accept-new' > /root/.ssh/config
  /usr/sbin/sshd
}

# await_link INTERFACE
await_link() {
  local i
  for ((i = 0; i < 300; i++)); do [ "$(cat "/sys/class/net/$1/carrier")" != 1 ] || return 0; sleep 0.1; done
  echo "$1 has no link"
  return 1
}

# make_functions NUMBER: gives the emulated 82576 of that host a virtual function with an address of its owner's; sets data_nic,
# the NIC's interface, and vf, the function.
make_functions() {
  local file i
  modprobe -a igb igbvf
  udevadm settle
  file=$(grep -l '^52:54:00:1a:b1:0' /sys/class/net/*/address)
  data_nic=$(basename "$(dirname "$file")")
  ip link set "$data_nic" up
  await_link "$data_nic"
  echo 1 > "/sys/class/net/$data_nic/device/sriov_numvfs"
  await_link "$data_nic" # the NIC is reset as it gets functions
  vf=$(basename "$(readlink "/sys/class/net/$data_nic/device/virtfn0")")
  ip link set "$data_nic" vf 0 mac "52:54:00:1a:b2:0$1"
  # The function's driver asks for its address as it is bound, and there was none yet.
  for ((i = 0; i < 5; i++)); do
    echo "$vf" > "/sys/bus/pci/devices/$vf/driver/unbind"
    echo "$vf" > /sys/bus/pci/drivers/igbvf/bind
    udevadm settle
    ! grep -q 52:54:00:1a:b2 "/sys/bus/pci/devices/$vf"/net/*/address || return 0
    sleep 1
  done
  echo "$vf has the address $(cat "/sys/bus/pci/devices/$vf"/net/*/address); the kernel's log:"
  dmesg | grep igb | tail -n 20
  return 1
}

# state_of_function: host_state.py's lines, and all that ip says of data_nic and of the interface of vf.
state_of_function() {
  local interface
  python3 support/host_state.py
  for interface in "$data_nic" "$(ls "/sys/bus/pci/devices/$vf/net")"; do ip link show dev "$interface"; done |
    sed -E 's/^[0-9]+: //; s/ (qdisc|mode|state|qlen|group) [^ ]+//g; /altname/d; s/ permaddr .*//'
}

# on_second COMMAND...: there, in /lab.
on_second() { ssh -o BatchMode=yes -o ConnectTimeout=30 lab-2 "cd /lab && $*"; }
