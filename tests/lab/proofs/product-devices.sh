#!/bin/bash
# Stands for: GPUs passed through, one VM with one and two tenants with one each, against bare metal on the same devices.
# Shows: doctor finds KVM and the IOMMU; virtrain run, from the scenario to compare, trainer and all: in the VM arm the device
#   is on vfio-pci and held by just one VM, in the bare metal arm on its host driver; two tenants at once hold different
#   devices; the trials are labelled kvm_on_emulated and not compared; afterwards all is as it was.
# Cannot show: a trainer that uses the device: it is an NVMe disk or a network adapter, the training is the CPU's.
# L1: boot=product product=yes images=yes memory=4G seconds=900
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
first=0000:00:11.0 second=0000:00:12.0
virtrain doctor -v > /lab/doctor || fail "doctor: $(cat /lab/doctor)"
for id in KVM-1 KVM-2 IOM-1 VIRT-2 IMG-1; do
  check "doctor's $id" grep -E "^$id .* ok " /lab/doctor
done
before=$(host_state)
scenario one "{kind: passthrough, select: {address: [\"$first\"]}}" '[{name: one, tenants: [{nodes: 1, gpus_per_node: 1}]}]'
check "one VM with one device" watched one $first
expect "trials" "bare_metal finished none vm finished kvm_on_emulated" "$(trials one 'arm, status, virtualization' | xargs)"
expect "seen from outside" "$first bare-metal nvme $first virtual-machines vfio-pci 1" "$(grep "^$first" /lab/one.watch | xargs)"
virtrain compare --db /lab/one.db > /lab/compare
check "the verdict" grep "not comparable" /lab/compare
unchanged "the host afterwards" "$before"

scenario two "{kind: passthrough, select: {address: [\"$first\", \"$second\"]}}" \
  '[{name: two, tenants: [{nodes: 1, gpus_per_node: 1}, {nodes: 1, gpus_per_node: 1}]}]'
check "two tenants with a device each" watched two $first $second
expect "trials" "bare_metal finished none vm finished kvm_on_emulated" "$(trials two 'arm, status, virtualization' | xargs)"
cat /lab/two.watch
for device in "$first nvme" "$second e1000e"; do
  read -r address host_driver <<< "$device"
  expect "$address on bare metal" "$address bare-metal $host_driver" "$(grep "$address bare-metal" /lab/two.watch)"
  check "$address in a VM of its own" grep -q "$address virtual-machines vfio-pci 1" /lab/two.watch
done
check "both at once, each in one VM" grep -q '^groups 1 1$' /lab/two.watch
expect "devices in two VMs" 0 "$(grep -c '^groups.*[2-9]' /lab/two.watch)"
unchanged "the host afterwards" "$before"
finish
