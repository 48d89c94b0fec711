# shellcheck shell=bash
# Kernel modules for the first-level VM's kernel: the sample mediated-device drivers of the kernel's own source (mtty,
# mdpy) and those of tests/lab/modules. Sourced by scripts/lab.

# fetch_kernel_tree KVER VERSION TREE: headers to build against, and the sources of the samples.
fetch_kernel_tree() {
  local kver=$1 version=$2 tree=$3 series deb debs
  series=$(cut -d. -f1,2 <<< "$kver")
  debs=("linux-headers-$kver=$version" "linux-headers-${kver%-amd64}-common=$version" "linux-kbuild-$series=$version"
        "linux-compiler-gcc-12-x86=$version" "linux-source-$series=$version")
  rm -rf --one-file-system "$tree"
  mkdir -p "$tree/deb" "$tree/samples"
  (
    cd "$tree/deb"
    download=(apt-get -o APT::Sandbox::User=root -qq download "${debs[@]}")
    "${download[@]}" 2> /dev/null || { apt-get -qq update; "${download[@]}"; }
  )
  for deb in "$tree"/deb/*.deb; do dpkg-deb -x "$deb" "$tree"; done
  tar -C "$tree/samples" --strip-components=3 -xf "$tree/usr/src/linux-source-$series.tar.xz" \
    "linux-source-$series/samples/vfio-mdev"
  rm -rf "$tree/deb" "$tree"/usr/src/linux-source-*
  sed -i "s,/usr/,$tree/usr/,g" "$tree/usr/src/linux-headers-$kver"/{Makefile,.kernelvariables}
  echo "$version" > "$tree/key"
}

# build_modules SUITE: build/lab/SUITE/modules/*.ko
build_modules() {
  local out=$lab_dir/$1/modules kver version tree key here=$source_dir/tests/lab/modules
  read -r kver version < "$lab_dir/$1/kernel"
  tree=$lab_dir/kernel-$kver
  key=$(ls "$here"/*.c "$source_dir/scripts/lab.d/modules.sh" | hash_of "$version")
  ! is_built "$out" "$key" || return 0
  say "building kernel modules for $kver"
  is_built "$tree" "$version" || fetch_kernel_tree "$kver" "$version" "$tree"
  rm -rf "$tree/work" "$out"
  cp -r "$tree/samples" "$tree/work"
  cp "$here"/*.c "$tree/work/"
  mkdir -p "$out"
  {
    echo 'obj-m := mtty.o mdpy.o'
    for source in "$here"/*.c; do echo "obj-m += $(basename "$source" .c).o"; done
  } > "$tree/work/Kbuild"
  make -s -C "$tree/usr/src/linux-headers-$kver" M="$tree/work" modules > "$tree/make.log" 2>&1 ||
    { tail -n 30 "$tree/make.log" >&2; say "the modules do not build; see $tree/make.log"; return 1; }
  cp "$tree"/work/*.ko "$out/"
  echo "$key" > "$out/key"
}
