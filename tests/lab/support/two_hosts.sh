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

# on_second COMMAND...: there, in /lab.
on_second() { ssh -o BatchMode=yes -o ConnectTimeout=30 lab-2 "cd /lab && $*"; }
