# shellcheck shell=bash
# What a host that cannot pass anything through says, and that nothing changed. Sourced after proof.sh.

refuses_passthrough() { # REGEX of libvirt's or QEMU's words
  local nvme=0000:00:11.0
  virsh -q domcapabilities --virttype qemu | sed -n "/pciBackend/,/\/enum/p" | xargs echo "note  domcapabilities:"
  refused "passthrough" "$1" start l2-a kvm l2.hold "$(hostdev $nvme)"
  expect "driver after the refusal" nvme "$(driver $nvme)"
}
