"""The exports as their real readers see them: promtool, Python's csv, a JSON Schema validator, sqlite3, tar, sha256sum.

usage: consumers_test.py BUILD SOURCE
"""
import collections
import csv
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import jsonschema

BUILD, SOURCE = map(pathlib.Path, sys.argv[1:3])
HOSTILE = 'a "quoted" \\ back\nline, =1+1 <b>|`'


def records():
    """A study as a run stores it: two pairs of two tenants, telemetry, an event, probes, an imported failure."""
    yield {"record": "experiment", "experiment": "native", "scenario": "two-vms", "label": HOSTILE, "status": "finished",
           "started_at": "2026-11-20T08:00:00.500Z", "scenario_text": "name: two-vms\n", "plan": {"trials": []}}
    trial = 0
    for pair in (1, 2):
        for arm in ("bare_metal", "vm"):
            trial += 1
            tenants = []
            for t in (0, 1):
                node = {"name": f"t{t}n0", "kind": "vm" if arm == "vm" else "slice", "agent_ready_seconds": 1.5}
                if arm == "vm":
                    node.update(domain_name=f"virtrain-native-{trial}{t}", domain_xml=f"<domain id='{trial}{t}'/>\n")
                    node["console_log"] = f"LOGS/native/{trial}{t}.console"
                tenants.append({"tenant_index": t, "nodes": 1, "images_per_second": 50.0 + t, "network_bytes_measured": 10 ** 9,
                                "node_list": [node],
                                "workload": {"model": "resnet50"},
                                "ranks": [{"node": f"t{t}n0", "rank": r, "local_rank": r, "size": 2, "images_per_second": 25.0 + r,
                                           "step_p50_seconds": 0.16} for r in (0, 1)]})
            yield {"record": "trial", "experiment": "native", "scenario": "two-vms", "label": HOSTILE, "case": "two-vms/2", "arm": arm,
                   "pair": pair, "order": trial, "nodes": 2, "gpus_per_node": 0, "ranks_per_node": 2, "batch_size": 4, "precision": "fp32",
                   "images_per_second": 101.0 - (arm == "vm"), "virtualization": "kvm" if arm == "vm" else "none",
                   "started_at": "2026-11-20T09:00:00.250+01:00", "ended_at": "2026-11-20T08:01:00Z", "tenants": tenants}
    yield {"record": "trial", "experiment": "native", "scenario": "two-vms", "case": "two-vms/2", "arm": "vm", "pair": 3,
           "nodes": 2, "gpus_per_node": 0, "images_per_second": None, "status": "failed", "failure_reason": "=cmd|' /C calc'!A0"}
    yield {"record": "sample", "experiment": "native", "trial": 2, "tenant": 0, "rank": 0, "t_ns": 1, "step": 1, "images": 4, "seconds": 0.16}
    for t_ns, metric, value in [(1, "cpu_seconds", 10.0), (2, "cpu_seconds", 14.5), (1, "DCGM_FI_DEV_GPU_UTIL:0", 90), (2, "DCGM_FI_DEV_GPU_UTIL:0", 98)]:
        yield {"record": "telemetry", "experiment": "native", "trial": 2, "tenant": 0, "node": "t0n0", "t_ns": t_ns, "source": "guest",
               "metric": metric, "value": value}
    yield {"record": "probe", "experiment": "native", "name": "all_reduce", "arm": "vm", "value": 1e9, "unit": "B/s", "size_bytes": 1024,
           "seconds": 1e-6, "ranks": 2, "wrong": 0, "detail": {"in_place": True}}
    yield {"record": "security", "experiment": "native", "arm": "vm", "name": "host_memory", "result": "not_found", "control": True,
           "scanned": 100, "total": 100, "unit": "B"}
    yield {"record": "event", "experiment": "native", "trial": 1, "t_ns": 5, "stage": "boot", "message": "started"}


class Consumers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-consumers-"))
        logs = cls.folder / "state/logs"
        (logs / "native").mkdir(parents=True)
        (logs / "native/20.console").write_bytes(b"\x00guest\xff" * 1000)
        (cls.folder / "secret").write_text("not for a bundle\n")
        lines = [json.dumps(r).replace("LOGS", str(logs)) for r in records()]
        # A stranger's record names a file that is none of the experiment's logs.
        lines = [line.replace(str(logs / "native/21.console"), str(cls.folder / "secret")) for line in lines]
        cls.source = cls.folder / "native.jsonl"
        cls.source.write_text("\n".join(lines) + "\n")
        cls.database = cls.folder / "results.db"
        cls.virtrain("import", cls.source)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def virtrain(cls, *arguments, status=0, database=None):
        environment = {**os.environ, "VIRTRAIN_STATE_DIR": str(cls.folder / "state")}
        result = subprocess.run([BUILD / "virtrain", *arguments, "--db", database or cls.database], env=environment, capture_output=True)
        assert result.returncode == status, (arguments, result.returncode, result.stderr)
        return result.stdout.decode()

    def export(self, format, *arguments):
        return self.virtrain("export", "--format", format, *arguments)

    def schema_of_a_line(self):
        schema = json.loads(subprocess.run([BUILD / "virtrain", "schema", "exchange"], capture_output=True, check=True).stdout)
        jsonschema.Draft7Validator.check_schema(schema)
        return jsonschema.Draft7Validator(schema)

    def test_what_the_schema_refuses_import_refuses_and_names(self):
        validator, lines = self.schema_of_a_line(), list(map(json.loads, self.source.read_text().splitlines()))
        trial, probe, security = ({"record": kind} for kind in ("trial", "probe", "security"))
        for place, key, value in [
                (trial, "nodes", 0), (trial, "pair", -1), (trial, "gpus_per_node", 2 * 10 ** 9), (trial, "batch_size", 1.5),
                (trial, "images_per_second", 1e-9), (trial, "images_per_second", 1e13), (trial, "virtualization", "esxi"),
                (trial, "status", "done"), (trial, "environment", []), (trial, "started_at", "yesterday"), (trial, "arm", ""),
                (trial, "arm", None), (trial, "case", "c" * 1001), (trial, "start_spread_ns", -1), (trial, "unknown", 1),
                ("tenant", "images_per_second", -1), ("tenant", "images_per_second", 1e-307), ("tenant", "images_per_second", 1e13),
                ("tenant", "nodes", None), ("tenant", "network_bytes_measured", -1), ("rank", "images_per_second", 1e-307),
                ("rank", "images_per_second", 1e13),
                ("node", "kind", "pod"), ("node", "numa_node", -1), ("node", "fingerprint", {"kernel": 6}), ("rank", "size", 0),
                ("rank", "step_p50_seconds", 0), ({"record": "sample"}, "seconds", 0), ({"record": "sample"}, "images", 0),
                ({"record": "telemetry"}, "source", "moon"), ({"record": "event"}, "message", None), (probe, "unit", "GB/s"),
                (probe, "value", -1), (probe, "seconds", 0), (probe, "wrong", -1), (security, "result", "fine"),
                (security, "scanned", -1), (security, "unit", "GB")]:
            kind = place if isinstance(place, str) else None
            changed = json.loads(json.dumps(lines))
            record = next(r for r in changed if r["record"] == (place["record"] if kind is None else "trial"))
            tenant = record.get("tenants", [None])[0]
            part = {None: lambda: record, "tenant": lambda: tenant, "node": lambda: tenant["node_list"][0],
                    "rank": lambda: tenant["ranks"][0]}[kind]()
            part[key] = value
            self.assertFalse(validator.is_valid(record), (place, key, value))
            file = self.folder / "refused.jsonl"
            file.write_text("".join(json.dumps(r) + "\n" for r in changed))
            done = subprocess.run([BUILD / "virtrain", "import", file, "--db", self.folder / "refused.db"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr, rf"refused.jsonl:{changed.index(record) + 1}: .*{key}")

    def test_each_exchange_line_fits_the_schema(self):
        validator = self.schema_of_a_line()
        published = [line for file in (SOURCE / "scenarios/published").glob("*.jsonl") for line in file.read_text().splitlines()]
        lines = self.export("jsonl").splitlines() + self.source.read_text().splitlines() + published
        kinds = collections.Counter()
        for line in lines:
            record = json.loads(line)
            kinds[record["record"]] += 1
            self.assertEqual([e.message for e in validator.iter_errors(record)], [], line)
        self.assertEqual(kinds.keys(), {"experiment", "trial", "sample", "telemetry", "event", "probe", "security"})
        for bad in [{"unknown": 1}, {"images_per_second": 0}, {"arm": ""}, {"nodes": 1.5}, {"virtualization": "esxi"}]:
            self.assertFalse(validator.is_valid({**next(r for r in map(json.loads, lines) if r["record"] == "trial"), **bad}), bad)

    def test_export_import_export_gives_the_same_bytes(self):
        first = self.export("jsonl")
        again = self.folder / "again.jsonl"
        again.write_text(first)
        self.virtrain("import", again, database=self.folder / "again.db")
        self.assertEqual(self.virtrain("export", database=self.folder / "again.db"), first)

    def test_csv_is_read_by_pythons_reader_and_by_import(self):
        text = self.export("csv")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        self.assertEqual([float(r["images_per_second"]) for r in rows if r["images_per_second"]], [101, 100, 101, 100])
        self.assertEqual({r["label"] for r in rows}, {HOSTILE})
        detail = list(csv.DictReader(io.StringIO(self.export("csv", "--view", "v_trial_detail"), newline="")))
        self.assertEqual(detail[4]["failure_reason"], "'=cmd|' /C calc'!A0", "no spreadsheet takes it for a formula")
        self.assertEqual(text.count("\r\n"), 6)
        back = self.folder / "back.csv"
        back.write_bytes(text.encode())
        self.virtrain("import", back, database=self.folder / "back.db")
        self.assertEqual(self.virtrain("export", "--format", "csv", database=self.folder / "back.db"), text)

    def test_every_view_in_every_table_format(self):
        for view in ["v_trial", "v_trial_detail", "v_tenant", "v_node", "v_rank", "v_speedup", "v_vm_vs_bare_metal", "v_telemetry", "v_probe",
                     "v_experiment", "v_fact", "v_event", "v_sample"]:
            rows = json.loads(self.export("json", "--view", view))
            self.assertEqual(len(list(csv.reader(io.StringIO(self.export("csv", "--view", view), newline="")))), len(rows) + 1, view)
            markdown = self.export("markdown", "--view", view).splitlines()
            self.assertEqual(len(markdown), len(rows) + 2, view)
            self.assertEqual(len({len(re.findall(r"(?<!\\)\|", line)) for line in markdown}), 1, view)
        ratios = json.loads(self.export("json", "--view", "v_vm_vs_bare_metal"))
        self.assertAlmostEqual(ratios[0]["ratio"], 100 / 101)

    def test_promtool_accepts_the_textfile(self):
        promtool = shutil.which("promtool") or SOURCE / "build/tools/promtool"
        if not pathlib.Path(promtool).exists():
            print("no promtool; scripts/setup --all unpacks it")
            sys.exit(77)
        page = self.folder / "virtrain.prom"
        self.virtrain("export", "--format", "prometheus", "-o", page)
        text = page.read_text()
        checked = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        self.assertEqual([p.name for p in self.folder.glob(".virtrain.prom*")], [], "no temporary file is left")
        samples = re.findall(r'^([a-zA-Z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} ([-+0-9.e]+)$', text, re.M)
        self.assertEqual(len(samples), len([line for line in text.splitlines() if not line.startswith("#")]), "no line has a timestamp")
        self.assertEqual(len({s[:2] for s in samples}), len(samples), "no sample twice")
        values = collections.defaultdict(list)
        for name, _, value in samples:
            values[name].append(float(value))
        self.assertEqual(values["DCGM_FI_DEV_GPU_UTIL"], [94])
        self.assertEqual(values["virtrain_node_cpu_seconds_total"], [4.5])
        self.assertEqual(values["virtrain_tenant_network_bytes_total"], [1e9] * 8)
        self.assertAlmostEqual(values["virtrain_vm_vs_bare_metal_ratio"][0], 100 / 101)
        self.assertIn('label="a \\"quoted\\" \\\\ back\\nline', text)

    def test_superbench_lines_are_one_a_node_and_come_back(self):
        lines = [json.loads(line) for line in self.export("superbench").splitlines()]
        self.assertEqual([line["node"] for line in lines],
                         ["native/bare_metal/0.t0n0", "native/bare_metal/1.t1n0", "native/vm/0.t0n0", "native/vm/1.t1n0"])
        # What superbench/analyzer/rule_base.py takes apart: the benchmark before the first ":", a rank behind the last.
        self.assertEqual(sorted(lines[0].keys() - {"node"}),
                         [f"model-benchmarks:two-vms-2/virtrain-resnet50/{run}/fp32_train_throughput:{rank}" for run in (0, 1) for rank in (0, 1)])
        self.assertEqual(set(lines[0].values()), {25.0, 26.0, "native/bare_metal/0.t0n0"})
        summary = self.folder / "results-summary.jsonl"
        summary.write_text("\n".join(map(json.dumps, lines)))
        self.virtrain("import", summary, "--experiment", "sb", "--arm", "vm", database=self.folder / "sb.db")
        rows = json.loads(self.virtrain("export", "--format", "json", database=self.folder / "sb.db"))
        self.assertEqual([row["images_per_second"] for row in rows], [51.0] * 8)

    def test_superbench_names_nodes_that_took_part_in_fewer_cases(self):
        rows = [{"record": "trial", "experiment": "e", "scenario": "s", "case": case, "arm": arm, "pair": 1, "nodes": 1, "gpus_per_node": 0,
                 "images_per_second": 10.0} for case, arm in [("a", "bare_metal"), ("b", "bare_metal"), ("a", "vm")]]
        source, database = self.folder / "uneven.jsonl", self.folder / "uneven.db"
        source.write_text("\n".join(map(json.dumps, rows)))
        self.virtrain("import", source, database=database)
        done = subprocess.run([BUILD / "virtrain", "export", "--format", "superbench", "--db", database], capture_output=True, text=True)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertRegex(done.stderr, r"FailedTest first=e/vm nodes=1\n")
        done = subprocess.run([BUILD / "virtrain", "export", "--format", "superbench", "--db", self.database], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")

    def test_mlperf_lines_parse(self):
        # As mlcommons/logging's mlp_parser does: the token, then JSON with these keys; time_ms a number.
        events = collections.Counter()
        for line in self.export("mlperf").splitlines():
            self.assertTrue(line.startswith(":::MLLOG "))
            entry = json.loads(line[len(":::MLLOG "):])
            self.assertEqual(list(entry), ["namespace", "time_ms", "event_type", "key", "value", "metadata"])
            self.assertIn(entry["event_type"], ["INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"])
            events[entry["key"]] += 1
            if entry["key"] == "run_start" and entry["metadata"]["pair"] == 1:
                self.assertEqual(entry["time_ms"], 1795161600250, "2026-11-20T08:00:00.250Z")
            if entry["key"] == "run_stop":
                self.assertEqual(entry["metadata"]["status"], "aborted" if entry["metadata"]["pair"] == 3 else "success")
        self.assertEqual((events["run_start"], events["run_stop"], events["throughput"]), (5, 5, 4))

    def test_the_bundle_verifies_and_says_what_is_missing(self):
        for name, flag in [("evidence.tar.gz", "-z"), ("evidence.tar.zst", "--zstd")]:
            bundle = self.folder / name
            told = self.virtrain("export", "--bundle", bundle)
            self.assertEqual(told.count("missing"), 3)
            once = bundle.read_bytes()
            self.virtrain("export", "--bundle", bundle)
            self.assertEqual(bundle.read_bytes(), once, "equal data, equal archive")
            where = self.folder / (name + ".d")
            where.mkdir()
            subprocess.run(["tar", flag, "-xf", bundle, "-C", where], check=True)
            root = where / "virtrain-evidence"
            subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=root, check=True)
            files = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
            self.assertEqual(files - {"SHA256SUMS"}, {line.split("  ")[1] for line in (root / "SHA256SUMS").read_text().splitlines()})
            self.assertEqual((root / "experiments/native/logs/20.console").read_bytes(), b"\x00guest\xff" * 1000)
            self.assertIn("experiments/native/domains/virtrain-native-20.xml", files)
            self.assertEqual((root / "experiments/native/scenario.yaml").read_text(), "name: two-vms\n")
            self.assertEqual((root / "exchange.jsonl").read_text(), self.export("jsonl"))
            missing = json.loads((root / "manifest.json").read_text())["missing"]
            self.assertEqual({m["path"]: m["reason"] for m in missing}[str(self.folder / "secret")],
                             "it is not in the experiment's log folder of this host and user")
            self.assertNotIn(b"not for a bundle", b"".join(p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != "results.db"))
            rows = subprocess.run(["sqlite3", "-readonly", root / "results.db", "PRAGMA integrity_check; SELECT count(*) FROM v_trial"],
                                  check=True, text=True, capture_output=True).stdout
            self.assertEqual(rows.split(), ["ok", "5"])
        self.assertEqual([p.name for p in self.folder.glob("evidence.tar.*.??????")], [], "no temporary folder is left")
        self.virtrain("export", "--bundle", self.folder / "evidence.zip", status=2)

    def test_a_file_is_replaced_whole_or_not_at_all(self):
        out = self.folder / "kept.jsonl"
        out.write_text("before")
        failed = subprocess.run([BUILD / "virtrain", "export", "--experiment", "nobody", "-o", out, "--db", self.database], capture_output=True)
        self.assertNotEqual(failed.returncode, 0)
        self.assertEqual(out.read_text(), "before")
        self.virtrain("export", "-o", out)
        self.assertEqual(out.read_text(), self.export("jsonl"))
        self.assertEqual(self.virtrain("export", "-o", "/dev/stdout"), out.read_text())
        full = subprocess.run([BUILD / "virtrain", "export", "-o", "/dev/full", "--db", self.database], capture_output=True, text=True)
        self.assertNotEqual(full.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
