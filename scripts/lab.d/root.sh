# shellcheck shell=bash
# The first-level VM's root disk and kernel, made of Debian packages. Sourced by scripts/lab.

# What every first-level VM has.
base_packages=(
  kmod udev iproute2 procps hostname pciutils strace e2fsprogs cpio python3-minimal sqlite3
  libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients
  qemu-system-x86 qemu-utils seabios ipxe-qemu busybox-static
)
# Another release's libvirt comes in smaller parts.
trixie_packages=(libvirt-daemon-log libvirt-daemon-driver-nodedev libvirt-daemon-driver-network)
# What virtrain runs with, besides its libraries.
product_packages=(openmpi-bin supermin libvirt-daemon-system openssh-server openssh-client)
# Drivers that the two tiny initrds load themselves.
l1_initrd_modules=(virtio_pci virtio_blk ext4 crc32c_generic)
l2_initrd_modules=(nvme e1000e)

# Paths of the libraries that virtrain's programs are linked with on this host.
libraries_of_product() {
  local programs
  programs=$(find "$build_dir" -maxdepth 1 -type f -executable -name 'virtrain*')
  [ -n "$programs" ] || { say "no virtrain in $build_dir: build it first (scripts/setup)"; return 1; }
  # One of them is static, which ldd calls a failure.
  # shellcheck disable=SC2086
  { ldd $programs 2> /dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u
}

# The packages that own them.
library_packages() {
  libraries_of_product | while read -r library; do
    # dpkg knows files by the path they were packed with: with or without /usr where the two are merged.
    dpkg -S "$(realpath "$library")" 2> /dev/null || dpkg -S "$(realpath "$library" | sed 's,^/usr,,')" || true
  done | cut -d: -f1 | sort -u
}

packages_of() { # SUITE
  printf '%s\n' "${base_packages[@]}" "${product_packages[@]}"
  case $1 in
    bookworm) library_packages ;;
    trixie) printf '%s\n' "${trixie_packages[@]}" ;;  # the product's libraries come with the payload
  esac
}

# initrd_modules ROOT KVER OUT MODULE...: the modules and what they need into OUT, their order in OUT/order.
initrd_modules() {
  local root=$1 kver=$2 out=$3 module path; shift 3
  mkdir -p "$out"
  for module in "$@"; do
    modprobe --dirname "$root" --set-version "$kver" --show-depends "$module" | awk '$1 == "insmod" { print $2 }'
  done | awk '!seen[$0]++' | while read -r path; do
    cp "$path" "$out/"
    basename "$path" >> "$out/order"
  done
}

configure_root() { # ROOT
  # Root may open what it needs without help of udev's rules, systemd or a security module.
  cat > "$1/etc/libvirt/qemu.conf" <<'CONF'
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
remember_owner = 0
CONF
  # libvirtd refuses to start without this user, which only libvirt-daemon-system of bookworm creates.
  chroot "$1" id -u libvirt-qemu > /dev/null 2>&1 ||
    chroot "$1" useradd --system --user-group --home-dir /var/lib/libvirt libvirt-qemu
  echo lab > "$1/etc/hostname"
  rm -rf "${1:?}"/var/cache/apt/archives/*.deb "${1:?}"/var/lib/apt/lists/* "${1:?}"/boot/initrd*
}

# build_root SUITE: build/lab/SUITE with vmlinuz, busybox, root.img, l1-modules, l2-modules, kernel (release and version).
build_root() {
  local suite=$1 out=$lab_dir/$1 root key packages kver mirror
  packages=$(packages_of "$suite")
  key=$(echo "$source_dir/scripts/lab.d/root.sh" | hash_of "$suite" "$packages")
  ! is_built "$out" "$key" || return 0
  say "making the first-level VM of Debian $suite (once; about a minute)"
  rm -rf --one-file-system "$out"
  mkdir -p "$out"
  root=$out/root
  mirror=$(debian_mirror)
  # Everywhere the kernel of bookworm: the modules of the lab are made for it. INITRD=No: the lab brings its own.
  local sources=("deb $mirror bookworm main")
  [ "$suite" = bookworm ] || sources=("deb $mirror $suite main" "${sources[@]}")
  INITRD=No mmdebstrap --quiet --mode=root --variant=minbase \
    --include="$(xargs <<< "$packages" | tr ' ' ','),linux-image-amd64/bookworm" \
    --aptopt='Apt::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$suite" "$root" "${sources[@]}" > "$out/mmdebstrap.log" 2>&1 ||
    { tail -n 20 "$out/mmdebstrap.log" >&2; say "mmdebstrap failed; its full output is in $out/mmdebstrap.log"; return 1; }
  kver=$(basename "$(echo "$root"/lib/modules/*)")
  echo "$kver $(dpkg-query --root="$root" -W -f '${Version}' "linux-image-$kver")" > "$out/kernel"
  cp "$root/boot/vmlinuz-$kver" "$out/vmlinuz"
  cp "$root/bin/busybox" "$out/busybox"
  initrd_modules "$root" "$kver" "$out/l1-modules" "${l1_initrd_modules[@]}"
  initrd_modules "$root" "$kver" "$out/l2-modules" "${l2_initrd_modules[@]}"
  configure_root "$root"
  mke2fs -q -t ext4 -O ^has_journal -L lab -d "$root" "$out/root.img" 4G
  rm -rf --one-file-system "$root"
  echo "$key" > "$out/key"
}
