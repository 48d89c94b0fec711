# shellcheck shell=bash
# Sourced by scripts/lab and scripts/try-cuda12, which get packages without installing them.

# apt_mirror LABEL RELEASE: the address that this machine's own apt has for an archive (Debian, Ubuntu): that of RELEASE, else of any
# release, since a mirror has them all. Sources may name it otherwise ("stable"): the lists tell the codename.
apt_mirror() {
  # The dollar signs are apt's.
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(LABEL)' 'Created-By: Packages' |
    awk -F '|' -v label="$1" -v release="$2" '
      exact == "" && ($2 == release || ($3 == release && $4 == label)) { exact = $1 }
      other == "" && $4 == label { other = $1 }
      END { found = exact != "" ? exact : other; if (found == "") exit 1; print found }' ||
    { echo "apt has no source of $1: add one below /etc/apt and run apt-get update" >&2; return 1; }
}
