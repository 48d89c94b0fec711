#!/bin/bash
# Stands for: a GPU whose driver does not let go (the nvidia driver waits for ever while something holds it).
# Shows: virtrain gives up at its deadline, says so, puts the device into quarantine and refuses it from then on, while other
#   devices can still be lent; when the driver lets go at last, clean and --lift-quarantine make the device usable again.
# Cannot show: a leaked usage count, which only a reboot cures.
# L1: boot=lending product=yes
. ./support/proof.sh
. ./support/host_state.sh
edu=0000:00:10.0 nvme=0000:00:11.0
load labstuck
expect "driver before" labstuck "$(driver $edu)"
# What waits for the device's lock cannot be ended, so nothing here may wait for it: no host_state before the end.
before=$(host_state)

# patiently WHAT COMMAND...: ends by itself within 100 s; else the proof goes on without it.
patiently() {
  local what=$1 i pid; shift
  "$@" < /dev/null > /run/words 2>&1 & pid=$!
  for ((i = 0; i < 200; i++)); do
    if ! kill -0 $pid 2> /dev/null; then wait $pid; return; fi
    sleep 0.5
  done
  fail "$what: hangs ($(ps -o stat=,wchan= -p $pid))"
  cat /run/words
  return 100
}
t0=$(now)
rc=0
patiently "lending" virtrain-lab-lender passthrough $edu || rc=$?
echo "time  lending gave up after $(elapsed "$t0")"
expect "lending fails by itself" 1 "$rc"
check "it says which write the kernel did not answer" grep "driver/unbind: .*has not answered" /run/words
patiently "lending again" virtrain-lab-lender passthrough $edu || true
check "the device is refused from now on" grep 'in quarantine since' /run/words
check "another device can be lent meanwhile" patiently "lending another" virtrain-lab-lender passthrough $nvme
patiently "doctor" virtrain doctor --devices || true
check "doctor --devices does not hang" [ "$(wc -l < /run/words)" -gt 0 ]
rc=0
patiently "clean" virtrain clean || rc=$?
expect "clean cannot put it back yet" 6 "$rc"
check "clean names it and goes on" grep "^not removed: binding $edu" /run/words

echo 1 > /sys/module/labstuck/parameters/release
sleep 3
check "clean, now that the driver has let go" virtrain clean
unchanged "the host afterwards" "$before"
check "quarantine is lifted" virtrain clean --lift-quarantine $edu
check "the device can be lent again" virtrain-lab-lender passthrough $edu < /dev/null
unchanged "the host afterwards" "$before"
finish
