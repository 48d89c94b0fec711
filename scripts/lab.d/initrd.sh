# shellcheck shell=bash
# The two initrds: how the first level finds its root disk, and all there is of a second-level guest. Sourced by scripts/lab.

# make_initrd SUITE-FOLDER MODULES INIT OUT [PROGRAM...]: busybox, INIT as /init, the modules with their order, more programs.
make_initrd() {
  local tree busybox=$1/busybox out; shift
  out=$3
  tree=$(mktemp -d)
  mkdir -p "$tree"/{bin,dev,proc,sys,mnt}
  cp "$busybox" "$tree/bin/busybox"
  install -m 755 "$2" "$tree/init"
  cp -r "$1" "$tree/modules"
  [ $# -le 3 ] || install -m 755 "${@:4}" "$tree/"
  (cd "$tree" && find . | cpio --quiet -o -H newc) | gzip -1 > "$out.$$"
  mv "$out.$$" "$out" # whole at any moment: another proof may be about to boot it
  rm -rf "$tree"
}

# The small parts that change with this source tree: made anew every time, in a second.
build_initrds() { # SUITE
  local here=$source_dir/tests/lab out=$lab_dir/$1
  make_initrd "$out" "$out/l1-modules" "$here/l1/initrd-init" "$out/l1-initrd" "$here/l1/lab-init"
  make_initrd "$out" "$out/l2-modules" "$here/l2/init" "$out/l2-initrd"
}
