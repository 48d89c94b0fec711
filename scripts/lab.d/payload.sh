# shellcheck shell=bash
# What proofs take into the first-level VM: one tar, on a disk of its own. Sourced by scripts/lab.

# The product as `cmake --install` would put it, and the lab's own test programs. Never part of the cached root disk. What ranks
# compute takes minutes under two emulations and is nothing that a proof is about: the trainer is the fault tests', which
# sleeps its steps.
add_product() { # FOLDER
  DESTDIR=$1/product cmake --install "$build_dir" --prefix /usr --strip > "$1.install.log" 2>&1 ||
    { tail -n 20 "$1.install.log" >&2; say "cmake --install failed; build all of it first (scripts/setup --all)"; return 1; }
  rm -f "$1.install.log"
  install -s "$build_dir/virtrain-lab-lender" "$build_dir/fault-kit/virtrain-resnet50-cpu" "$1/product/usr/bin/"
  install -s "$build_dir/virtrain-lab-canary" "$1/product/usr/bin/virtrain-canary"
  install -s "$build_dir/quick-kit/virtrain-resnet50-cpu" "$1/product/usr/bin/virtrain-quick-trainer"
}

# add_ssh_key FOLDER: one by which the first levels of this build reach each other.
add_ssh_key() {
  [ -e "$lab_dir/ssh/key" ] || { mkdir -p "$lab_dir/ssh"; ssh-keygen -q -t ed25519 -N "" -C lab -f "$lab_dir/ssh/key"; }
  cp -r "$lab_dir/ssh" "$1/"
}

# The libraries that virtrain's programs were linked with, for another release of Debian: its first process puts those into
# place that the release does not have.
add_libraries() { # FOLDER
  mkdir -p "$1/libraries"
  libraries_of_product | xargs -I{} cp -L {} "$1/libraries/"
}

# make_payload SUITE RUN-SCRIPT WITH-PRODUCT OUT [SECONDS PROOF...]: the tar that /init of the first level unpacks to /lab. Still
# there SECONDS after its start, it says what it is doing.
make_payload() {
  local suite=$1 tree out=$4 seconds=${5:-} name
  tree=$(mktemp -d)
  mkdir -p "$tree/l2" "$tree/proofs"
  for name in "${@:6}"; do cp "$(proof_file "$name")" "$tree/proofs/"; done
  install -m 755 "$2" "$tree/run"
  cp -r "$source_dir/tests/lab/support" "$lab_dir/$suite/modules" "$tree/"
  cp "$lab_dir/$suite/vmlinuz" "$lab_dir/$suite/l2-initrd" "$tree/l2/"
  add_ssh_key "$tree"
  [ "$3" = no ] || add_product "$tree" || return 1
  [ "$3" = no ] || [ "$suite" = bookworm ] || add_libraries "$tree"
  env | grep '^L2_' > "$tree/environment" || true
  [ -z "$seconds" ] || echo "LAB_SECONDS=$seconds" >> "$tree/environment"
  tar -C "$tree" -cf "$out" .
  rm -rf "$tree"
}
