"""R judges 200 random comparisons: data goes in by `import`, answers come out of `compare --format json`, and must agree
with R's t.test, p.adjust and quantiles to 1e-8."""

import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile

VIRTRAIN = sys.argv[1]
R_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "r_check.R")
SETTINGS = [(0.02, 0.05), (0.05, 0.05), (0.01, 0.1), (0.1, 0.01)]
CASES_EACH = 50


def throughput(rng, level, sigma):
    return level * math.exp(rng.gauss(0, sigma))


def make_case(rng, name):
    """One case: its runs (arm, pair, value or None) with missing ones here and there."""
    level = math.exp(rng.uniform(0, 9))
    ratio = math.exp(rng.uniform(-0.08, 0.05))
    sigma = math.exp(rng.uniform(math.log(0.001), math.log(0.05)))
    runs = []
    if rng.random() < 0.5:
        for pair in range(1, rng.randint(3, 12) + 1):
            common = throughput(rng, level, 2 * sigma)
            for arm, factor in (("bare_metal", 1), ("vm", ratio)):
                missing = pair > 3 and rng.random() < 0.1
                runs.append((arm, pair, None if missing else throughput(rng, common * factor, sigma)))
    else:
        for arm, factor in (("bare_metal", 1), ("vm", ratio)):
            runs += [(arm, None, throughput(rng, level * factor, sigma)) for _ in range(rng.randint(3, 12))]
    return name, runs


def import_cases(folder, number, cases):
    path = os.path.join(folder, f"{number}.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for name, runs in cases:
            for arm, pair, value in runs:
                file.write(json.dumps({
                    "record": "trial", "experiment": "random", "scenario": "random", "case": name, "arm": arm, "pair": pair,
                    "nodes": 1, "gpus_per_node": 1, "images_per_second": value,
                    "virtualization": "kvm" if arm == "vm" else "none"}) + "\n")
    database = os.path.join(folder, f"{number}.db")
    subprocess.run([VIRTRAIN, "import", path, "--db", database], check=True, capture_output=True)
    return database


def ours(database, margin, alpha):
    done = subprocess.run([VIRTRAIN, "compare", "--db", database, "--format", "json", "--margin", str(margin), "--alpha",
                           str(alpha)], check=True, capture_output=True, text=True)
    return {one["case"]: one for one in json.loads(done.stdout)}


def judged_by_r(folder, tables):
    """R reads one line a run and prints one line a figure: set, case, name, value."""
    path = os.path.join(folder, "runs.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("set,margin,alpha,case,arm,pair,value\n")
        for number, (margin, alpha, cases) in enumerate(tables):
            for name, runs in cases:
                for arm, pair, value in runs:
                    file.write(f"{number},{margin!r},{alpha!r},{name},{arm},{pair or 'NA'},{'NA' if value is None else repr(value)}\n")
    done = subprocess.run(["Rscript", "--vanilla", R_SCRIPT, path], check=True, capture_output=True, text=True)
    figures = {}
    for line in done.stdout.splitlines():
        number, case, name, value = line.split(",")
        figures.setdefault((int(number), case), {})[name] = value
    return figures


def agrees(mine, wanted):
    if wanted in ("NA", "none"):
        return mine is None
    if isinstance(mine, str):
        return mine == wanted
    wanted = float(wanted)
    return mine is not None and abs(mine - wanted) <= 1e-8 * abs(wanted) + 1e-12


def main():
    if shutil.which("Rscript") is None:
        print("skipped: there is no R here (Debian's r-base-core)")
        return 77
    rng = random.Random(20261120)
    tables, answers = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, (margin, alpha) in enumerate(SETTINGS):
            cases = [make_case(rng, f"case-{k}") for k in range(CASES_EACH)]
            tables.append((margin, alpha, cases))
            answers.append(ours(import_cases(folder, number, cases), margin, alpha))
        figures = judged_by_r(folder, tables)
    checked, wrong, verdicts = 0, [], set()
    assert len(figures) == len(SETTINGS) * CASES_EACH, len(figures)
    for (number, case), wanted in figures.items():
        assert len(wanted) >= 13, wanted
        verdicts.add(wanted["verdict"])
        for name, value in wanted.items():
            checked += 1
            if not agrees(answers[number][case][name], value):
                wrong.append((number, case, name, answers[number][case][name], value))
    print(f"{len(figures)} comparisons, {checked} figures, {len(wrong)} disagree; verdicts seen: {sorted(verdicts)}")
    for line in wrong[:20]:
        print("disagrees:", line)
    assert verdicts == {"equivalent", "better", "worse", "non_inferior", "inconclusive"}, verdicts
    return 1 if wrong else 0


sys.exit(main())
