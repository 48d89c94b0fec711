# shellcheck shell=bash
# A device lent by virtrain for as long as a proof wants. Sourced after host_state.sh.

# lend KIND ADDRESS...: until give_back; its words are in /run/lender.out.
lend() {
  rm -f /run/hold
  mkfifo /run/hold
  : > /run/lender.out # else a reader might see an earlier loan
  virtrain-lab-lender "$@" < /run/hold > /run/lender.out 2>&1 & lender=$!
  exec 9> /run/hold
  local i
  for ((i = 0; i < 200; i++)); do
    ! grep -q '^lent' /run/lender.out || return 0
    kill -0 $lender 2> /dev/null || return 1
    sleep 0.2
  done
  return 1
}
give_back() {
  exec 9>&-
  wait $lender
}
