#!/usr/bin/python3
"""The Grafana dashboard asks for what `virtrain changes --format prometheus` writes, in PromQL that promtool reads."""

import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_line import BUILD, SOURCE, virtrain
from nights import records, write

PROMTOOL = pathlib.Path(shutil.which("promtool") or BUILD / "tools/promtool")
METRIC = re.compile(r"\bvirtrain_\w+")


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-dashboard-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        nights = write(cls.folder / "nights.jsonl", records(range(15), 950) + records(range(15, 18), 855, "mpi-4.1.7"))
        assert virtrain("import", nights, "--db", cls.folder / "nightly.db").status == 0
        page = virtrain("changes", "--format", "prometheus", "--db", cls.folder / "nightly.db").out
        cls.labels = {}
        for line in page.splitlines():
            if not line.startswith("#"):
                cls.labels.setdefault(line.split("{")[0], set()).update(re.findall(r'[{,]([a-z_]+)="', line))
        cls.dashboard = json.loads((SOURCE / "share/grafana/virtrain-nightly.json").read_text())
        cls.panels = cls.dashboard["panels"]
        cls.targets = [target for panel in cls.panels for target in panel["targets"]]
        cls.variables = {one["name"]: one for one in cls.dashboard["templating"]["list"]}

    def test_every_metric_and_label_is_one_that_is_written(self):
        queries = [target["expr"] for target in self.targets] + [one["definition"] for one in self.variables.values() if "definition" in one]
        self.assertEqual({metric for query in queries for metric in METRIC.findall(query)}, set(self.labels))
        selections = 0
        for query in queries:
            for metric, selector in re.findall(r"(virtrain_\w+)\{([^}]*)\}", query):
                selections += 1
                self.assertLessEqual(set(re.findall(r"(\w+)=~?\"", selector)), self.labels[metric], query)
            self.assertEqual(len(METRIC.findall(query)), query.count("{") + query.count("label_values"), query)
        self.assertGreater(selections, len(self.panels))
        for name, variable in self.variables.items():
            if variable["type"] == "query":
                self.assertIn(name, self.labels["virtrain_series_last_night"])
        for target in self.targets:
            self.assertLessEqual(set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])), self.labels["virtrain_series_last_night"])

    def test_promtool_reads_every_query(self):
        if not PROMTOOL.exists():
            print("no promtool; scripts/setup --all unpacks it")
            sys.exit(77)
        queries = [re.sub(r"\$\w+", ".*", target["expr"]) for target in self.targets]
        rules = {"groups": [{"name": "dashboard", "rules": [{"record": f"query_{i}", "expr": query} for i, query in enumerate(queries)]}]}
        path = self.folder / "rules.yml"
        path.write_text(json.dumps(rules))  # JSON is YAML
        checked = subprocess.run([PROMTOOL, "check", "rules", path], text=True, capture_output=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertIn(f"{len(queries)} rules found", checked.stdout)

    def test_it_has_what_grafana_needs(self):
        self.assertEqual((self.dashboard["uid"], self.dashboard["id"]), ("virtrain-nightly", None))
        self.assertGreaterEqual(self.dashboard["schemaVersion"], 36)
        ids = [panel["id"] for panel in self.panels]
        self.assertEqual(len(set(ids)), len(ids))
        source = {"type": "prometheus", "uid": "${datasource}"}
        self.assertEqual(self.variables["datasource"]["type"], "datasource")
        for panel in self.panels:
            place = panel["gridPos"]
            self.assertTrue(panel["title"] and panel["description"] and panel["targets"], panel["id"])
            self.assertLessEqual(place["x"] + place["w"], 24)
            for owner in (panel, *panel["targets"]):
                self.assertEqual(owner["datasource"], source)
            self.assertLessEqual(set(re.findall(r"\$(\w+)", " ".join(target["expr"] for target in panel["targets"]))), set(self.variables))
        for a, b in itertools.combinations([panel["gridPos"] for panel in self.panels], 2):
            apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"] or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
            self.assertTrue(apart, (a, b))


unittest.main()
