# shellcheck shell=bash
# Words that all parts of scripts/lab share. Sourced; needs source_dir, build_dir and lab_dir.

say() { echo "lab: $*" >&2; }
# Where the lab cannot be at all: tests show it as skipped, with these words.
cannot() { echo "SKIP: $*"; exit 77; }

need_host() {
  local tool
  [ "$(id -u)" = 0 ] || cannot "the lab makes a root file system, which needs root"
  for tool in mmdebstrap qemu-system-x86_64 cpio mke2fs modprobe make gcc-12 bc; do
    command -v "$tool" > /dev/null || cannot "$tool is not installed: run scripts/setup --all"
  done
}

# hash_of WORD... < FILE NAMES: one word that changes when a word or the content of a file does.
hash_of() { { echo "$@"; xargs -r sha256sum | cut -d' ' -f1; } | sha256sum | cut -c1-16; }

# is_built FOLDER KEY: whether FOLDER was finished with that key.
is_built() { [ "$(cat "$1/key" 2> /dev/null)" = "$2" ]; }

# The mirror that this host gets its own packages from.
debian_mirror() { apt_mirror Debian bookworm; }

# --- proofs describe themselves in the comment at their head

proof_file() { echo "$source_dir/tests/lab/proofs/$1.sh"; }

# proof_setting NAME KEY DEFAULT: from the line "# L1: key=value key=value".
proof_setting() {
  local word
  for word in $(sed -n 's/^# L1: //p' "$(proof_file "$1")"); do
    [ "${word%%=*}" != "$2" ] || { echo "${word#*=}"; return; }
  done
  echo "$3"
}

# proof_words NAME TITLE: the sentence after "# TITLE: ", which may go on in lines that begin with "#   ".
proof_words() {
  awk -v title="# $2: " 'index($0, title) == 1 { on = 1; print substr($0, length(title) + 1); next }
                         on && /^#   / { print substr($0, 5); next } { on = 0 }' "$(proof_file "$1")" | xargs -d '\n'
}
