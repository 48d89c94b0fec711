#!/bin/bash
# make_cloud_image.sh FILE: a small Debian cloud image (qcow2, BIOS, cloud-init) as a distribution would publish it, made
# of Debian's packages. Its release is this machine's, whose programs run in it. Needs root, mmdebstrap, grub-pc-bin, e2fsprogs
# and qemu-utils.
set -euo pipefail
image=$1
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
# shellcheck source=scripts/apt_mirror.sh
. "$(dirname "$0")/../../scripts/apt_mirror.sh"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt_mirror Debian "$release")

INITRD=No mmdebstrap --mode=root --variant=minbase \
  --include=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,udev,kmod,cloud-init,busybox-static,iproute2 \
  --aptopt='Apt::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  "$release" "$work/root" "deb $mirror $release main"
chroot "$work/root" update-initramfs -c -k all > /dev/null
rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/*
echo '/dev/vda1 / ext4 defaults 0 1' > "$work/root/etc/fstab"
# As cloud images have it: where to look for the seed, and nothing to wait for.
echo 'datasource_list: [NoCloud, None]' > "$work/root/etc/cloud/cloud.cfg.d/90_datasource.cfg"
kernel=$(basename "$(echo "$work"/root/boot/vmlinuz-*)")
initrd=$(basename "$(echo "$work"/root/boot/initrd.img-*)")

# One ext4 partition from 1 MiB on; GRUB's core between the partition table and it.
mke2fs -q -t ext4 -d "$work/root" "$work/partition" 1500M
truncate -s 1M "$work/disk"
cat "$work/partition" >> "$work/disk"
echo 'start=2048, type=83, bootable' | /usr/sbin/sfdisk -q "$work/disk"
cat > "$work/grub.cfg" <<CFG
set root=(hd0,msdos1)
linux /boot/$kernel root=/dev/vda1 console=ttyS0 quiet
initrd /boot/$initrd
boot
CFG
grub-mkimage -O i386-pc -p / -c "$work/grub.cfg" -o "$work/core.img" biosdisk part_msdos ext2 linux normal boot
dd if=/usr/lib/grub/i386-pc/boot.img of="$work/disk" bs=440 count=1 conv=notrunc status=none
dd if="$work/core.img" of="$work/disk" bs=512 seek=1 conv=notrunc status=none
qemu-img convert -O qcow2 "$work/disk" "$image.part"
mv "$image.part" "$image"
