# shellcheck shell=bash
# Boots the first-level VM and runs a payload in it. Sourced by scripts/lab.

# Devices under test, at fixed addresses of the first level:
#   00:10.0          edu (1234:11e8)     no host driver, a group of its own; its engine copies from any address
#   00:11.0          nvme (1b36:0010)    host driver nvme, a group of its own; its first block says lab-disk-0
#   00:12.0          e1000e (8086:10d3)  host driver e1000e, a group of its own
#   00:13.0, 00:13.1 nvme                two functions of one slot without ACS: one group
#   01:00.0          nvme, SR-IOV        up to two VFs (01:00.1, 01:00.2) behind a root port
#   03:00.0, 04:00.0 ivshmem (1af4:1110) memory of 4 MiB each as a prefetchable region, for proofs that say region=yes
#   02:01.0, 02:02.0 e1000 (8086:100e)   two cards behind a bridge without ACS: one group
lab_devices() { # RUN-FOLDER REGION: yes or no
  local n
  for n in 0 1 2; do
    truncate -s 16M "$1/nvme$n.img"
    printf 'lab-disk-%s' "$n" | dd of="$1/nvme$n.img" conv=notrunc status=none
  done
  devices=(
    -device "edu,addr=0x10,dma_mask=0xffffffffffffffff"
    -drive "if=none,id=nv0,file=$1/nvme0.img,format=raw" -device "nvme,drive=nv0,serial=lab0,addr=0x11"
    -netdev "user,id=n0,restrict=on" -device "e1000e,netdev=n0,addr=0x12,romfile="
    -drive "if=none,id=nv1,file=$1/nvme1.img,format=raw" -device "nvme,drive=nv1,serial=lab1,addr=0x13.0,multifunction=on"
    -drive "if=none,id=nv2,file=$1/nvme2.img,format=raw" -device "nvme,drive=nv2,serial=lab2,addr=0x13.1"
    -device "pcie-root-port,id=rp0,chassis=1,addr=0x14" -device "nvme-subsys,id=pf,nqn=lab"
    -device "nvme,serial=labpf,subsys=pf,bus=rp0,sriov_max_vfs=2,sriov_vq_flexible=4,sriov_vi_flexible=2"
    -device "pcie-pci-bridge,id=pb0,addr=0x15"
    -netdev "user,id=n1,restrict=on" -device "e1000,netdev=n1,bus=pb0,addr=1,romfile="
    -netdev "user,id=n2,restrict=on" -device "e1000,netdev=n2,bus=pb0,addr=2,romfile="
  )
  [ "$2" = yes ] || return 0
  for n in 1 2; do
    devices+=(
      -object "memory-backend-ram,id=region$n,size=4M,share=on" -device "pcie-root-port,id=rp$n,chassis=$((n + 1)),addr=0x1$((n + 5))"
      -device "ivshmem-plain,memdev=region$n,bus=rp$n"
    )
  done
}

# take_core: sets core, one of this host's that no other first level of this build uses while this shell lives; all of them
# where none is free. From the last one down, for tests beside it pin their VMs from the first one up. QEMU's threads must not run
# at the same moment: its emulated SVM is wrong then now and then (docs/lab-emulation.md).
core=
take_core() {
  local lock candidate
  [ -z "$core" ] || return 0
  for ((candidate = $(getconf _NPROCESSORS_CONF) - 1; candidate >= 0; candidate--)); do
    taskset --cpu-list "$candidate" true 2> /dev/null || continue # not ours
    exec {lock}> "$lab_dir/core.$candidate"
    if flock --nonblock "$lock"; then core=$candidate; return 0; fi
    exec {lock}>&-
  done
  core=$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)
}

# boot RUN-FOLDER SUITE IOMMU REGION MEMORY SECONDS [QEMU-ARG...]: with RUN-FOLDER/payload.tar; returns QEMU's status. TCG emulates
# AMD's SVM, so that the first level has a /dev/kvm of its own; this host's is never used. One processor: several on one core mostly
# wait for each other.
boot() {
  local run=$1 suite=$2 iommu=$3 region=$4 memory=$5 seconds=$6 devices=() iommu_device=() qemu cpu; shift 6
  choose_qemu
  take_core
  lab_devices "$run" "$region"
  [ "$iommu" = none ] || iommu_device=(-device "$iommu")
  taskset --cpu-list "$core" timeout --foreground "$seconds" "${qemu[@]}" \
    -machine q35,accel=tcg,kernel-irqchip=off -cpu "$cpu" -smp 1 -m "$memory" \
    -nodefaults -no-user-config -display none -no-reboot "${iommu_device[@]}" \
    -kernel "$lab_dir/$suite/vmlinuz" -initrd "$lab_dir/$suite/l1-initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off intel_iommu=on iommu=pt ${LAB_APPEND:-}" \
    -drive "if=virtio,file=$lab_dir/$suite/root.img,format=raw,snapshot=on" \
    -drive "if=virtio,file=$run/payload.tar,format=raw,readonly=on" \
    -chardev "file,id=console,path=$run/console" -serial chardev:console \
    "${devices[@]}" "$@"
}

# Of proofs that run the product's VMs (images=yes) the guest images, and what libvirt knows of QEMU, stay for the next boot.
cache_disk() { # SUITE BOOT
  local disk=$lab_dir/$1/cache-$2.img
  if [ ! -e "$disk" ] || ! e2fsck -p "$disk" > /dev/null 2>&1; then
    truncate -s 0 "$disk"
    mke2fs -q -t ext4 -L cache "$disk" 8G
  fi
  echo -drive "if=virtio,file=$disk,format=raw"
}

# watch_heartbeat RUN-FOLDER: ends a first-level VM that has not shown a sign of life for two minutes, and leaves the file
# "frozen". A proof that hangs leaves the heart beating; then it is the emulated processor itself that has stopped.
watch_heartbeat() {
  while sleep 10; do
    [ -s "$1/status" ] || continue # not up yet
    [ $(($(date +%s) - $(stat -c %Y "$1/status"))) -ge 120 ] || continue
    touch "$1/frozen"
    kill -9 "$(cat "$1/pid")"
    return
  done
}

# link_to FOLDER NUMBER SRIOV: sets link, the NIC by which the first of two first levels reaches the second, or that one the first;
# with SRIOV yes also a NIC with virtual functions, which QEMU has since version 8.
link=()
link_to() {
  link=(
    -netdev "dgram,id=link,local.type=unix,local.path=$1/link$2,remote.type=unix,remote.path=$1/link$((3 - $2))"
    -device "virtio-net-pci,netdev=link,mac=52:54:00:1a:b0:0$2,addr=0x18,romfile="
  )
  [ "$3" = no ] || link+=(
    -netdev "dgram,id=data,local.type=unix,local.path=$1/data$2,remote.type=unix,remote.path=$1/data$((3 - $2))"
    -device "pcie-root-port,id=rp9,chassis=9,addr=0x19" -device "igb,netdev=data,bus=rp9,mac=52:54:00:1a:b1:0$2,romfile="
  )
}

# boot_second BOOT SUITE SECONDS PROOF...: the second first level of proofs that say hosts=2; it waits there until the first one,
# where they run, tells it to end. Returns QEMU's status.
boot_second() {
  local run=$lab_dir/run/$1/second suite=$2 seconds=$3 cache=() name=$1; shift 3
  mkdir -p "$run"
  make_payload "$suite" "$source_dir/tests/lab/l1/run-second" "$(any_sets product "$@")" "$run/payload.tar" || return 1
  [ "$(any_sets images "$@")" = no ] || read -ra cache <<< "$(cache_disk "$suite" "$name-second")"
  link_to "$lab_dir/run/$name" 2 "$(any_sets sriov_nic "$@")"
  core= # one of its own
  boot "$run" "$suite" "$(proof_setting "$1" iommu intel-iommu,intremap=on)" "$(any_sets region "$@")" "$(memory_of "$@")" \
    "$seconds" -pidfile "$run/pid" -chardev "file,id=output,path=$run/output" -serial chardev:output \
    -chardev "file,id=status,path=$run/status" -serial chardev:status "${cache[@]}" "${link[@]}" < /dev/null
}

# Each line with the seconds since the start: where a proof spends its time.
with_seconds() {
  local line began=$SECONDS
  while IFS= read -r line; do printf '%4d  %s\n' $((SECONDS - began)) "$line"; done
}

# run_boot NAME PROOF...: on one first level, one proof after the other. Where the emulation fails, that says nothing about the
# proof, which only runs programs in it: what is not proved then is tried again. What virtrain itself does wrong fails again.
# docs/lab-emulation.md has what was seen.
run_boot() {
  local boot=$1 try rc name left; shift
  for try in 1 2 3 4; do
    rc=0
    try_boot "$boot" "$@" || rc=$?
    [ "$rc" = 125 ] || return "$rc"
    echo "== $boot: that was try $try of 4"
    left=()
    for name in "$@"; do grep -q "^== $name: proved" "$lab_dir/run/$boot/output" || left+=("$name"); done
    set -- "${left[@]}"
  done
  return 1
}

# emulation_fault QEMU-STATUS RUN-FOLDER: prints how the emulation, not the proof, failed; false where it did not. Whatever a proof
# does, the first level's process 1 writes a status before the end.
emulation_fault() {
  case $1 in
    132|134|135|136|139) echo "QEMU crashed, status $1"; return ;; # SIGILL, SIGABRT (an assertion), SIGBUS, SIGFPE, SIGSEGV
  esac
  if [ -e "$2/frozen" ]; then echo "no sign of life from the first level for two minutes"
  elif [ "$1" = 0 ] && [ -z "$(tr -dc '0-9' < "$2/status" 2> /dev/null)" ]; then echo "the first level's processor was reset"
  elif grep -qs "Kernel panic - not syncing" "$2/console"; then echo "the first level's kernel panicked"
  elif grep -q "its console is empty" "$2/output"; then echo "a VM in the first level never reached its kernel's first word"
  else return 1; fi
}

# each_sets KEY DEFAULT PROOF...: what each of the proofs sets, a line each.
each_sets() {
  local key=$1 otherwise=$2 name; shift 2
  for name in "$@"; do proof_setting "$name" "$key" "$otherwise"; done
}
# any_sets KEY PROOF...: yes where one of them says KEY=yes, else no.
any_sets() { if each_sets "$1" no "${@:2}" | grep -x yes > /dev/null; then echo yes; else echo no; fi; } # -q closes the pipe early
seconds_of() { echo $(($(each_sets seconds 600 "$@" | paste -sd+))); }
memory_of() { each_sets memory 2G "$@" | sort -n | tail -n 1; }

# try_boot NAME PROOF...: prints what they stand for and their output; fails where one does, with 125 where the emulation does.
try_boot() {
  local boot=$1 suite cache=() run rc=0 status fault began=$SECONDS seconds name title second='' second_rc=0; shift
  suite=$(proof_setting "$1" suite bookworm)
  seconds=$(seconds_of "$@")
  run=$lab_dir/run/$boot
  build_lab "$suite"
  [ "$(any_sets sriov_nic "$@")" = no ] || [ -d "$lab_dir/qemu/root" ] ||
    cannot "only the QEMU of bookworm-backports has a NIC with virtual functions; $lab_dir/qemu/log says why it is not here"
  rm -rf "$run"
  mkdir -p "$run"
  : > "$run/output"
  make_payload "$suite" "$source_dir/tests/lab/l1/run-proofs" "$(any_sets product "$@")" "$run/payload.tar" $((seconds - 60)) "$@" || return 1
  echo "== $boot (Debian $suite): $*"
  for name in "$@"; do
    for title in "Stands for" "Shows" "Cannot show"; do echo "$name: $title: $(proof_words "$name" "$title")"; done
  done
  [ "$(any_sets images "$@")" = no ] || read -ra cache <<< "$(cache_disk "$suite" "$boot")"
  tail -f --pid=$$ "$run/output" > >(with_seconds) & local reader=$!
  watch_heartbeat "$run" > /dev/null 2>&1 & local watcher=$!
  link=()
  if each_sets hosts 1 "$@" | grep -x 2 > /dev/null; then
    boot_second "$boot" "$suite" "$seconds" "$@" > "$run/second.log" 2>&1 & second=$!
    link_to "$run" 1 "$(any_sets sriov_nic "$@")"
  fi
  boot "$run" "$suite" "$(proof_setting "$1" iommu intel-iommu,intremap=on)" "$(any_sets region "$@")" "$(memory_of "$@")" \
    "$seconds" -pidfile "$run/pid" -chardev "file,id=output,path=$run/output" -serial chardev:output \
    -chardev "file,id=status,path=$run/status" -serial chardev:status "${cache[@]}" "${link[@]}" < /dev/null || rc=$?
  if [ -n "$second" ]; then
    timeout 30 tail -f --pid="$(cat "$run/second/pid" 2> /dev/null || echo 1)" /dev/null ||
      kill "$(cat "$run/second/pid")" 2> /dev/null || true
    wait "$second" || second_rc=$?
  fi
  sleep 0.2
  kill "$reader" "$watcher" 2> /dev/null || true
  wait "$reader" "$watcher" 2> /dev/null || true
  status=$(tr -dc '0-9' < "$run/status" 2> /dev/null || true)
  [ -n "${LAB_KEEP:-}" ] || rm -f "$run"{,/second}/nvme?.img "$run"{,/second}/payload.tar
  if [ "$rc" = 124 ] || [ -z "$status" ]; then
    echo "== $boot: the first-level VM $([ "$rc" = 124 ] && echo "ran past $seconds s" || echo "ended without a word"); its console ends with:"
    tail -n 20 "$run/console"
  elif [ "$status" != 0 ]; then
    echo "== $boot: FAILED ($((SECONDS - began)) s); console of the first level: $run/console"
  else
    echo "== $boot: proved in $((SECONDS - began)) s"
    return 0
  fi
  fault=$(emulation_fault "$rc" "$run") || fault=$([ -n "$second" ] && emulation_fault "$second_rc" "$run/second") || return 1
  echo "== $boot: the emulation failed: $fault"
  return 125
}

# A root shell on the first level, with everything in /lab.
run_shell() { # SUITE
  local run=$lab_dir/run/shell script
  build_lab "$1"
  rm -rf "$run"
  mkdir -p "$run"
  script=$(mktemp)
  echo 'stty -F /dev/ttyS1 sane; exec setsid --ctty --wait bash -i < /dev/ttyS1' > "$script"
  make_payload "$1" "$script" "$([ "$1" = bookworm ] && echo yes || echo no)" "$run/payload.tar"
  rm -f "$script"
  boot "$run" "$1" "${LAB_IOMMU:-intel-iommu,intremap=on}" no "${LAB_MEMORY:-4G}" 36000 \
    -chardev stdio,id=output -serial chardev:output -chardev "file,id=status,path=$run/status" -serial chardev:status
}
