# shellcheck shell=bash
# Compares what an outside observer sees of the host (host_state.py). Sourced after proof.sh.

host_state() { python3 support/host_state.py; }

# differs_from BEFORE: prints what is not as it was then; the host gets five seconds to settle.
differs_from() {
  local i now
  for ((i = 0; i < 10; i++)); do
    now=$(host_state)
    [ "$now" != "$1" ] || return 0
    sleep 0.5
  done
  diff <(echo "$1") <(echo "$now") | grep '^[<>]'
}

# unchanged WHAT BEFORE: the host is as it was.
unchanged() {
  local left
  left=$(differs_from "$2") || true
  if [ -z "$left" ]; then pass "$1"; else fail "$1:"; sed 's/^/      /' <<< "$left"; fi
}
