#!/usr/bin/python3
"""make_old_databases.py [VERSION …]: writes tests/results/store/data/nights-VERSION.sql, databases as earlier versions of virtrain left them.

Each has the same eighteen nights with a loss of 10 % in the last three, and rows in every table that its version had. The schema is the one of the
commit that introduced the version. A file that is there is never written again: what was released once must be readable for ever. When the
schema gets a new version, commit it, add it to VERSIONS and run this.
"""
import pathlib
import sqlite3
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / "tests/results/store/data"
FOLDER = "results/store/schema"
# The commit whose files made a database of this version; what they were named before the first of these is the same text.
VERSIONS = {1: "0515866", 2: "0515866", 3: "1873482", 4: "9256513", 5: "7508613", 6: "6653de4", 7: "1783fc6", 8: "3dcedb5", 9: "fa785278"}
APPLICATION = 1987334739  # "virtrain"'s mark
SCENARIO = "name: nightly\nworkload: {steps: 2}\nguest: {vcpus: 1, memory: 768MiB}\ncases: [{name: one, tenants: [{nodes: 1}]}]\n"


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=True).stdout


def migrations(version):
    names = sorted(git("ls-tree", "--name-only", VERSIONS[version], f"{FOLDER}/").split())
    texts = [git("show", f"{VERSIONS[version]}:{name}") for name in names if "migration_" in name]
    return texts[:version]


def insert(database, table, **values):
    marks = ", ".join("?" * len(values))
    names = ", ".join(f'"{name}"' for name in values)
    return database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values())).lastrowid


def fill(database, version):
    for night in range(18):
        began = f"2026-10-{night + 1:02}T02:00:00.000Z"
        bad = night >= 15
        number = insert(database, "experiment", id=f"n{night:02}", scenario="nightly", scenario_text=SCENARIO, label="mpi-5" if bad else "mpi-4",
                        started_at=began, ended_at=began.replace(":00:00.", ":01:00."), status="finished", host_name="ada", boot_id="b1",
                        virtrain_version="0.1.0", command_line="virtrain run nightly.yaml", plan='{"arms":[],"trials":[]}',
                        daemon_versions='{"libvirtd":"9.0.0"}')
        insert(database, "fingerprint", experiment_number=number, key="kernel", value="6.1.5" if bad else "6.1.0")
        for order, (arm, rate) in enumerate((("bare_metal", 1000), ("vm", 855 if bad else 950)), 1):
            trial = insert(database, "trial", experiment_number=number, trial_order=order, case="one", arm=arm, pair=1, nodes=1, gpus_per_node=0,
                           ranks_per_node=1, batch_size=4, precision="fp32", backend="cpu", virtualization="kvm" if arm == "vm" else "none",
                           status="finished", images_per_second=rate * (1 + 0.001 * (night % 4)), started_at=began, ended_at=began, start_spread_ns=5)
            if night in (0, 17):
                details(database, version, number, trial, arm, rate, bad)
    number = insert(database, "experiment", id="crashed", scenario="nightly", status="interrupted")
    insert(database, "trial", experiment_number=number, case="one", arm="vm", pair=1, nodes=1, gpus_per_node=0, status="failed",
           failed_stage="boot", failure_reason="no hello \u2026", console_tail="panic\n")
    if version >= 2:
        database.execute("UPDATE trial SET environment = ? WHERE id = 1", ['{"driver":"470.82.01"}'])
        insert(database, "import_file", sha256="a" * 64, name="old.jsonl", imported_at="2026-10-01T00:00:00Z")
    if version >= 5:
        insert(database, "acknowledgement", change="00000000", why="known: it's the \"new\" normal", acknowledged_at="2026-10-18T08:00:00Z")


def details(database, version, experiment, trial, arm, rate, bad):
    tenant = insert(database, "tenant", trial_id=trial, tenant_index=0, name="t1", workload='{"steps":2}', nodes=1, images_per_second=rate,
                    network_bytes_required=10, network_bytes_measured=12, loss_first=7.5, loss_last=-0.25, transport="self")
    extra = {"domain_xml": "<domain/>"} if version >= 4 and arm == "vm" else {}
    node = insert(database, "node", tenant_id=tenant, name="t1n1", kind="vm" if arm == "vm" else "slice", hostname="t1n1", cores="0-1",
                  memory_bytes=1 << 40, numa_node=0, clock_offset_ns=-3, clock_uncertainty_ns=4, kernel="6.1.0", agent_ready_seconds=4.5, **extra)
    insert(database, "fingerprint", node_id=node, key="kernel", value="6.1.5" if bad else "6.1.0")
    rank = insert(database, "rank", tenant_id=tenant, node="t1n1", rank=0, local_rank=0, size=1, hostname="t1n1", pid=77, isa="avx2", threads=2,
                  images_per_second=rate, loss_first=7.5, loss_last=1e-300, peak_rss_bytes=123456789, step_p50_seconds=0.1, step_p99_seconds=0.3)
    insert(database, "transport", tenant_id=tenant, from_node="t1n1", to_node="t1n1", transport="self")
    for step in range(3):
        insert(database, "sample", rank_id=rank, t_ns=1000 + step, step=step, images=4, seconds=0.1 + step / 3, loss=1 / (step + 3))
        insert(database, "telemetry", node_id=node, t_ns=1000 + step, source="guest", metric="cpu", value=step / 7)
    insert(database, "event", experiment_number=experiment, trial_id=trial, t_ns=99, stage="run", message="stage run", detail='{"a":1}')
    if version >= 3:
        insert(database, "probe", experiment_number=experiment, name="triad", arm=arm, unit="B/s", value=1.5e10, size_bytes=1 << 30)
    if version >= 7:
        insert(database, "security_probe", experiment_number=experiment, arm=arm, name="host_files", tenants="tenant-b at the host", result="leak",
               control=1, scanned=4096, total=8192.5, unit="B", found="a file of the host in /root/x, byte 0", virtualization="kvm")


def main():
    for version in [int(word) for word in sys.argv[1:]] or VERSIONS:
        path = TARGET / f"nights-{version}.sql"
        if path.exists():
            print(f"{path} is there and stays as it is")
            continue
        database = sqlite3.connect(":memory:")
        for text in migrations(version):
            database.executescript(text)
        fill(database, version)
        database.commit()
        marks = f"PRAGMA application_id = {APPLICATION};\nPRAGMA user_version = {version};\n"
        path.write_text(f"-- A version {version} database, by scripts/reference/make_old_databases.py. Never change it.\n"
                        + "\n".join(database.iterdump()) + "\n" + marks)
        print(f"{path}: {path.stat().st_size} bytes")


main()
