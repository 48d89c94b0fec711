# shellcheck shell=bash
# kill -9 of virtrain-lab-lender at every step, `virtrain clean` afterwards, and a look from outside. Sourced after
# host_state.sh.
#
# A step is found by the system call that begins or ends it, and strace kills the process as it enters that call:
#   journal    ftruncate   a transaction of the lease journal is on disk and not yet valid (SQLite truncates its rollback
#                          journal to make it so)
#   committed  fdatasync   it is valid: the last of the five that SQLite needs for one
#   writing    pidfd_open  a child of its own writes to sysfs: it lives on and finishes when nobody waits for it any more
declare -A call_of=([journal]=ftruncate [committed]=fdatasync [writing]=pidfd_open)
declare -A calls_each=([journal]=1 [committed]=5 [writing]=1)
moments=(journal committed writing)
declare -A tried=() leaks=()

# kill_at MOMENT NUMBER WORD...: fails where there is no such step, that is where the lender ran through.
kill_at() {
  local call=${call_of[$1]} number=$(($2 * ${calls_each[$1]})) rc=0; shift 2
  # In a shell of its own, which keeps bash's word "Killed" to itself.
  (strace -o /dev/null -e "trace=$call" -e "inject=$call:signal=SIGKILL:when=$number" \
    virtrain-lab-lender "$@" < /dev/null > /run/lender.out; exit $?) 2> /dev/null || rc=$?
  [ "$rc" != 0 ] || return 1
  [ "$rc" = 137 ] || { fail "lender $*: $(cat /run/lender.out)"; return 1; }
}

# kill_at_each_step KIND ADDRESS...: the lender's arguments.
kill_at_each_step() {
  local kind=$1 moment number before left
  before=$(host_state)
  virtrain-lab-lender "$@" < /dev/null > /run/lender.out || fail "$kind: not killed at all: $(cat /run/lender.out)"
  unchanged "$kind: lent and given back" "$before"
  for moment in "${moments[@]}"; do
    tried[$kind $moment]=0 leaks[$kind $moment]=0
    for ((number = 1; number < 100; number++)); do
      kill_at "$moment" "$number" "$@" || break
      tried[$kind $moment]=$number
      virtrain clean > /run/clean.out 2>&1 || { fail "$kind $moment $number: clean: $(cat /run/clean.out)"; }
      left=$(differs_from "$before") || true
      [ -n "$left" ] || continue
      leaks[$kind $moment]=$((leaks[$kind $moment] + 1))
      fail "$kind killed $moment $number (reached: $(xargs < /run/lender.out)): left behind:"
      sed 's/^/      /' <<< "$left"
      cat /run/clean.out
    done
    # Where nothing was tried the name of the system call is no longer right.
    [ "${tried[$kind $moment]}" -gt 0 ] || fail "$kind: no step was found for '$moment' (${call_of[$moment]})"
    echo "      $kind, $moment: ${tried[$kind $moment]} steps, ${leaks[$kind $moment]} leaks"
  done
  expect "$kind: as many commits are found by either call" "${tried[$kind journal]}" "${tried[$kind committed]}"
  check "$kind: virtrain clean --verify agrees" virtrain clean --verify
}

# The matrix: steps killed / leaks, for each kind and moment.
print_matrix() {
  local kind moment sum=0 total=0
  printf '%-18s' "steps/leaks"; printf '%10s' "${moments[@]}"; echo
  for kind in "$@"; do
    printf '%-18s' "$kind"
    for moment in "${moments[@]}"; do
      printf '%10s' "${tried[$kind $moment]}/${leaks[$kind $moment]}"
      total=$((total + ${tried[$kind $moment]})) sum=$((sum + ${leaks[$kind $moment]}))
    done
    echo
  done
  echo "$total steps, $sum leaks"
}
