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
declare -A tried=()
leaks=0

# kill_at MOMENT NUMBER WORD...: fails where there is no such step, that is where the lender ran through.
kill_at() {
  local call=${call_of[$1]} number=$(($2 * ${calls_each[$1]})) rc=0; shift 2
  # In a shell of its own, which keeps bash's word "Killed" to itself.
  (strace -o /dev/null -e "trace=$call" -e "inject=$call:signal=SIGKILL:when=$number" \
    virtrain-lab-lender "$@" < /dev/null > /run/lender.out; exit $?) 2> /dev/null || rc=$?
  [ "$rc" != 0 ] || return 1
  [ "$rc" = 137 ] || { fail "lender $*: $(cat /run/lender.out)"; return 1; }
}

# kill_at_each_step "KIND ADDRESS..." ...: the lender's arguments, of kinds of devices that can be lent at the same time: one clean
# puts all of them back.
kill_at_each_step() {
  local moment number before left lender words kind killed
  local -A through # the kinds that have no step of that number
  before=$(host_state)
  for lender in "$@"; do
    read -ra words <<< "$lender"
    virtrain-lab-lender "${words[@]}" < /dev/null > /run/lender.out || fail "${words[0]}: not killed at all: $(cat /run/lender.out)"
    unchanged "${words[0]}: lent and given back" "$before"
  done
  for moment in "${moments[@]}"; do
    through=()
    for ((number = 1; number < 100; number++)); do
      killed=()
      for lender in "$@"; do
        read -ra words <<< "$lender"
        kind=${words[0]}
        [ -z "${through[$kind]:-}" ] || continue
        kill_at "$moment" "$number" "${words[@]}" || { through[$kind]=yes; continue; }
        killed+=("$kind (reached: $(xargs < /run/lender.out))")
        tried[$kind $moment]=$number
      done
      [ ${#killed[@]} -gt 0 ] || break
      virtrain clean > /run/clean.out 2>&1 || fail "$moment $number: clean: $(cat /run/clean.out)"
      left=$(differs_from "$before") || true
      [ -n "$left" ] || continue
      leaks=$((leaks + 1))
      fail "killed $moment $number: ${killed[*]}: left behind:"
      sed 's/^/      /' <<< "$left"
      cat /run/clean.out
    done
  done
  for lender in "$@"; do
    kind=${lender%% *}
    for moment in "${moments[@]}"; do
      # Where nothing was tried the name of the system call is no longer right.
      [ "${tried[$kind $moment]:-0}" -gt 0 ] || fail "$kind: no step was found for '$moment' (${call_of[$moment]})"
    done
    expect "$kind: as many commits are found by either call" "${tried[$kind journal]:-0}" "${tried[$kind committed]:-0}"
  done
  check "virtrain clean --verify agrees" virtrain clean --verify
}

# The matrix: steps killed, for each kind and moment.
print_matrix() {
  local kind moment total=0
  printf '%-18s' "steps"; printf '%10s' "${moments[@]}"; echo
  for kind in "$@"; do
    printf '%-18s' "$kind"
    for moment in "${moments[@]}"; do
      printf '%10s' "${tried[$kind $moment]}"
      total=$((total + ${tried[$kind $moment]}))
    done
    echo
  done
  echo "$total steps, $leaks leaks"
}
