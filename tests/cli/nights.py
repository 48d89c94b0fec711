"""Nights of a scenario as records to import: with a loss, and with names that break what does not escape them."""

import json
import pathlib

SCENARIO = "nightly"
HOSTILE = "a \"quoted\" \\ back\nline <b>&amp;]]></b> \x1b[31m \u202e"
# In the place of crontab on PATH, with its table beside it; reads slowly where there is a table.slow.
CRONTAB = """#!/bin/sh
table=$(dirname "$0")/table
case $1 in
-l) test -e "$table" || { echo "no crontab for ada" >&2; exit 1; }; cat "$table"
    test ! -e "$table.slow" || sleep 0.7 ;;
-) cat > "$table" ;;
esac
"""


def records(nights, rate, package="mpi-4.1.4", case="one", scenario=SCENARIO, text="name: nightly\n"):
    """One record of an experiment and its pair for each night."""
    lines = []
    for night in nights:
        started = f"2026-{10 + night // 28:02}-{night % 28 + 1:02}T02:00:00Z"
        experiment = f"{scenario}-n{night:02}"
        lines.append({"record": "experiment", "experiment": experiment, "scenario": scenario, "label": package,
                      "scenario_text": text, "status": "finished", "started_at": started})
        for arm, value in (("bare_metal", 1000), ("vm", rate)):
            lines.append({"record": "trial", "experiment": experiment, "scenario": scenario, "case": case, "arm": arm, "pair": 1,
                          "nodes": 1, "gpus_per_node": 0, "images_per_second": value * (1 + 0.001 * (night % 4)), "label": package,
                          "started_at": started})
    return lines


def write(path, lines):
    pathlib.Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
