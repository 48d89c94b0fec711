# shellcheck shell=bash
# The QEMU that emulates the first level: that of bookworm-backports, unpacked under build/lab and never installed. Its
# software emulation starts programs three times as fast as bookworm's own QEMU 7.2, and its emulated SVM is wrong less often
# (docs/lab-emulation.md). Sourced by scripts/lab.

# The processor has AMD's SVM and none of the instructions that TCG lacks. Without ERMS the kernels clear memory by words,
# twice as fast. virtrain knows an emulated host by the model's name.
backports_cpu="EPYC,-fxsr-opt,-misalignsse,-osvw,-topoext,-nrip-save,-xsavec,model-id=QEMU TCG CPU"
installed_cpu=max,-erms

# fetch_qemu FOLDER: bookworm-backports' QEMU, unpacked into FOLDER/root; apt's own lists and sources stay as they are.
fetch_qemu() {
  local tree=$1 package apt
  mkdir -p "$tree"/{lists,cache}
  echo "deb $(debian_mirror) bookworm-backports main" > "$tree/sources.list"
  apt=(apt-get -qq -o "Dir::Etc::SourceList=$tree/sources.list" -o "Dir::Etc::SourceParts=-" -o "Dir::State::Lists=$tree/lists"
       -o "Dir::Cache=$tree/cache" -o APT::Sandbox::User=root -o Acquire::Retries=3)
  # Called in a condition, where the shell's errexit is off.
  (
    cd "$tree" &&
      "${apt[@]}" update &&
      "${apt[@]}" download {qemu-system-x86,qemu-system-data,seabios}/bookworm-backports || exit 1
    for package in *.deb; do dpkg-deb -x "$package" root || exit 1; done
    rm -rf -- *.deb lists cache root/usr/share/{doc,man,icons}
    root/usr/bin/qemu-system-x86_64 --version
  ) > "$tree/log" 2>&1
}

# build_qemu: build/lab/qemu/root, once; without it where the packages cannot be had or do not run.
build_qemu() {
  local tree=$lab_dir/qemu key
  key=$(echo "$source_dir/scripts/lab.d/qemu.sh" | hash_of)
  ! is_built "$tree" "$key" || return 0
  rm -rf --one-file-system "$tree"
  mkdir -p "$tree"
  if ! fetch_qemu "$tree"; then
    rm -rf --one-file-system "$tree/root"
    say "no QEMU of bookworm-backports ($tree/log says why): going on with $(qemu-system-x86_64 --version | head -1)," \
      "slower and now and then wrong"
  fi
  echo "$key" > "$tree/key"
}

# choose_qemu: sets qemu, the command's first words, and cpu.
choose_qemu() {
  local root=$lab_dir/qemu/root
  qemu=(qemu-system-x86_64) cpu=$installed_cpu
  [ -d "$root" ] || return 0
  qemu=("$root/usr/bin/qemu-system-x86_64" -L "$root/usr/share/qemu" -L "$root/usr/share/seabios")
  # shellcheck disable=SC2034
  cpu=$backports_cpu
}
