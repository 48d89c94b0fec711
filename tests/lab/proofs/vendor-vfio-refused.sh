#!/bin/bash
# Stands for: vendor-specific VFIO on Debian 12, whose libvirt 9.0 knows only vfio-pci.
# Shows: managed='no' is refused with the function on the vendor's driver; managed='yes' is worse: it rebinds and the vGPU is
#   lost. This is why virtrain refuses vendor-VFIO scenarios there.
# Cannot show: a libvirt from 9.7 to 11.2.
# L1: boot=libvirt label=release
. ./support/proof.sh
. ./support/vendor_vfio.sh
echo "libvirt $(virsh version --daemon | sed -n 's/.*daemon: //p')"
vendor_vfs
echo 902 > "$current"
refused "managed='no' with a VFIO driver other than vfio-pci" 'manually detached' start l2-vgpu kvm l2.hold "$(hostdev $vf no)"
expect "driver and type after the refusal" "nvidia 902" "$(driver $vf) $(cat "$current")"
if start l2-managed kvm l2.hold "$(hostdev $vf yes)"; then
  expect "managed='yes' takes the vGPU away" "vfio-pci gone" "$(driver $vf) $([ -e "$current" ] && echo there || echo gone)"
  virsh -q destroy l2-managed
else
  pass "managed='yes' is refused, too"
fi
no_vendor_vfs
finish
