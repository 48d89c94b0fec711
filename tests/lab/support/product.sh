# shellcheck shell=bash
# Helpers for proofs of virtrain itself. Sourced after proof.sh and host_state.sh.

# scenario NAME DEVICES CASES [ARMS]: in /lab/NAME.yaml, as small as this slow machine needs. All in YAML's flow style.
scenario() {
  cat > "/lab/$1.yaml" <<YAML
name: $1
workload: {model: resnet50, backend: cpu, precision: fp32, batch_size: 2, image_size: 32, warmup_steps: 0, steps: 2,
  env: {STEP_SECONDS: "5"}}
guest: {image: mirror, vcpus: 1, memory: 768MiB, pinning: cores}
devices: $2
cases: $3
arms: ${4:-[bare_metal, vm]}
pairs: 1
oversubscribe: true
boot_timeout: 15m
trial_timeout: 15m
YAML
}

# run_scenario NAME: in the foreground; its words, which are shown too, in /lab/NAME.log.
run_scenario() { virtrain -v run "/lab/$1.yaml" --db "/lab/$1.db" 2>&1 | tee "/lab/$1.log"; }

# trials NAME QUERY: of v_trial, a line each, columns separated by blanks.
trials() { sqlite3 -separator ' ' "/lab/$1.db" "SELECT $2 FROM v_trial ORDER BY trial_order"; }

# refused_run WHAT STATUS REGEX NAME: virtrain refuses the scenario with that exit status and these words.
refused_run() {
  local rc=0
  run_scenario "$4" || rc=$?
  expect "$1: exit status" "$2" "$rc"
  if grep -qE "$3" "/lab/$4.log"; then pass "$1: $(grep -E "$3" "/lab/$4.log" | tail -1)"
  else fail "$1: refused with other words (above)"; fi
}

# watched NAME ADDRESS...: runs the scenario while watch_devices.py looks at the devices; its words in /lab/NAME.watch.
watched() {
  local name=$1 watcher rc=0; shift
  python3 support/watch_devices.py "$@" > "/lab/$name.watch" & watcher=$!
  run_scenario "$name" || rc=$?
  kill $watcher
  wait $watcher || true
  return $rc
}
