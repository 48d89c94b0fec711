#!/bin/bash
# Stands for: a whole virtrain run that is killed (kill -9) while VMs hold GPUs.
# Shows: killed in each stage of a VM trial, VM, network, slice and the lent device remain for a moment; `virtrain clean` removes
#   all of it, gives the device back and marks the experiment interrupted. The same with libvirtd killed beside it.
# Cannot show: a guest whose GPU has to be reset because it was cut off.
# L1: product=yes images=yes memory=4G seconds=1700
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
device=0000:00:11.0
scenario killed "{kind: passthrough, select: {address: [\"$device\"]}}" '[{name: one, tenants: [{nodes: 1, gpus_per_node: 1}]}]' '[vm]'
before=$(host_state)

# killed_in STAGE [ALSO]: of the trial; ALSO is a process that dies with it.
killed_in() {
  local i pid
  virtrain -v run /lab/killed.yaml --db /lab/killed.db > /lab/killed.log 2>&1 & pid=$!
  for ((i = 0; i < 1200; i++)); do
    ! grep -aq "stage=$1 " /lab/killed.log || break
    kill -0 $pid 2> /dev/null || break
    sleep 0.3
  done
  grep -aq "stage=$1 " /lab/killed.log || { fail "$1 was never reached:"; tail -5 /lab/killed.log; }
  kill -9 $pid
  wait $pid 2> /dev/null || true
  if [ -n "${2:-}" ]; then pkill -9 -x "$2"; sleep 1; check "$2 returns" daemon; fi
  echo "      left by the kill in $1: $(differs_from "$before" | sed 's/^> //' | grep -v '^<' | xargs)"
  check "clean after $1" virtrain clean
  unchanged "killed in $1${2:+ with $2}: the host afterwards" "$before"
}
for stage in define run tear_down; do killed_in $stage; done
killed_in agent libvirtd
expect "experiments" "interrupted interrupted interrupted interrupted" \
  "$(sqlite3 /lab/killed.db 'SELECT status FROM experiment' | xargs)"
check "nothing is left by its own account" virtrain clean --verify
finish
