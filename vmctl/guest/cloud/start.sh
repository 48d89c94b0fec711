#!/bin/sh
# Started by cloud-init: mounts virtrain's root, which comes as a disk of its own, beside the image's and starts the
# agent in it. Kernel, services and GPU driver stay the image's.
set -eu
. /run/virtrain/node # HOST, ADDRESS, MAC, MTU, HOSTS, PAYLOAD

# wait_for_disk SERIAL: sets disk
wait_for_disk() {
  disk=/dev/disk/by-id/virtio-$1
  tries=0
  until [ -e "$disk" ]; do
    tries=$((tries + 1))
    [ "$tries" -le 300 ] || { echo "virtrain: $disk has not appeared" >&2; exit 1; }
    sleep 0.1
  done
}

wait_for_disk virtrain-root
cd /run/virtrain
mkdir -p ro rw root
mount -o ro "$disk" ro
mount -t tmpfs -o mode=0755 tmpfs rw
mkdir rw/u rw/w
modprobe overlay 2>/dev/null || true # or it is built in
mount -t overlay -o lowerdir=/run/virtrain/ro,upperdir=/run/virtrain/rw/u,workdir=/run/virtrain/rw/w overlay root
for folder in dev proc sys; do mount --rbind "/$folder" "root/$folder"; done
mount -t tmpfs -o mode=0755 tmpfs root/run
mount -t tmpfs -o mode=1777 tmpfs root/tmp
mkdir -m 0700 root/tmp/virtrain
mkdir -p "root/lib/modules"
mount --bind /lib/modules root/lib/modules
if [ -n "$PAYLOAD" ]; then
  wait_for_disk virtrain-payload
  modprobe squashfs 2>/dev/null || true # or it is built in
  mkdir root/tmp/virtrain/payload
  mount -t squashfs -o ro,nosuid,nodev "$disk" root/tmp/virtrain/payload
fi

# The image's own driver, where it has one, goes before the host's: kernel module and libraries must be of one version.
for library in $(ldconfig -p 2>/dev/null | sed -n 's/.*x86-64.* => //p' | grep -E '/lib(cuda|nvidia-[a-z0-9-]+)\.so' || true); do
  cp -L "$library" root/usr/lib/x86_64-linux-gnu/
done

hostname "$HOST"
echo "$HOST" > root/etc/hostname
{
  echo "127.0.0.1 localhost"
  for entry in $HOSTS; do echo "${entry#*:} ${entry%%:*}"; done
} > root/etc/hosts
echo 5 > /proc/sys/net/ipv4/tcp_retries2
if [ -n "$MAC" ]; then
  for nic in /sys/class/net/*; do
    [ "$(cat "$nic/address")" = "$MAC" ] || continue
    name=${nic##*/}
    chroot root ip link set "$name" down
    [ "$name" = eth0 ] || chroot root ip link set "$name" name eth0
    [ -z "$MTU" ] || chroot root ip link set eth0 mtu "$MTU"
    chroot root ip address add "$ADDRESS" dev eth0
    chroot root ip link set eth0 up
  done
fi

exec chroot root /usr/bin/env -i HOME=/root LANG=C.UTF-8 TMPDIR=/tmp/virtrain \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  /usr/bin/virtrain-agent --channel org.virtrain.agent.0
