#!/bin/bash
# Stands for: a whole virtrain run that is killed (kill -9) while VMs hold GPUs.
# Shows: killed in each stage of a VM trial, its virtrain-host removes VM and network and gives the device back by itself. Where
#   that is killed too, the VM ends with it, and `virtrain clean` gives the device back; the same with libvirtd killed beside
#   them. The experiment is marked interrupted.
# Cannot show: a guest whose GPU has to be reset because it was cut off.
# L1: product=yes images=yes memory=4G seconds=1700
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
device=0000:00:11.0
scenario killed "{kind: passthrough, select: {address: [\"$device\"]}}" '[{name: one, tenants: [{nodes: 1, gpus_per_node: 1}]}]' '[vm]'
before=$(host_state)

# killed_in STAGE [ALSO...]: of the trial; ALSO are processes that die with it.
killed_in() {
  local i pid stage=$1 also
  shift
  virtrain -v run /lab/killed.yaml --db /lab/killed.db > /lab/killed.log 2>&1 & pid=$!
  for ((i = 0; i < 1200; i++)); do
    ! grep -aq "stage=$stage " /lab/killed.log || break
    kill -0 $pid 2> /dev/null || break
    sleep 0.3
  done
  grep -aq "stage=$stage " /lab/killed.log || { fail "$stage was never reached:"; tail -5 /lab/killed.log; }
  for also in "$@"; do pkill -STOP -x "$also"; done  # none sees the others go
  kill -9 $pid
  for also in "$@"; do pkill -9 -x "$also"; done
  wait $pid 2> /dev/null || true
  for ((i = 0; i < 300; i++)); do
    pgrep -x virtrain-host > /dev/null || break
    sleep 0.3
  done
  if [[ " $* " = *" libvirtd "* ]]; then check "libvirtd returns" daemon; fi
  if (($# == 0)); then
    unchanged "killed in $stage: the host afterwards" "$before"
  else
    echo "      left by the kill of $* in $stage: $(differs_from "$before" | sed 's/^> //' | grep -v '^<' | xargs)"
  fi
  check "clean after $stage" virtrain clean
  unchanged "killed in $stage${1:+ with $*}: the host after clean" "$before"
}
for stage in define run tear_down; do killed_in $stage; done
killed_in run virtrain-host
killed_in agent virtrain-host libvirtd
expect "experiments" "interrupted interrupted interrupted interrupted interrupted" \
  "$(sqlite3 /lab/killed.db 'SELECT status FROM experiment' | xargs)"
check "nothing is left by its own account" virtrain clean --verify
finish
