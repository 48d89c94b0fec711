#!/usr/bin/python3
"""Every verb from outside: exit status, words, and what goes to which stream."""

import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import unittest

from command_line import BUILD, SCENARIOS, small_scenario, virtrain

VERBS = ["demo", "run", "reproduce", "plan", "validate", "list", "show", "compare", "export", "import", "doctor", "clean", "schema", "scenarios", "changes",
         "ack", "bisect", "schedule", "topology", "diagnose"]
EXPERIMENT = re.compile(r"\d{8}t\d{6}-[0-9a-f]{6}")


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.database = self.folder / "results.db"

    def file(self, text, name="scenario.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def succeed(self, *arguments, **options):
        result = virtrain(*arguments, **options)
        self.assertEqual(result.status, 0, result)
        return result


class Help(CommandLine):
    def test_every_verb_has_an_example_that_names_it(self):
        listed = self.succeed("--help").out
        for verb in VERBS:
            with self.subTest(verb=verb):
                self.assertRegex(listed, rf"(?m)^  {verb}\b")
                words = self.succeed(verb, "--help").out
                self.assertRegex(words, rf"Examples?:\n  virtrain {verb}")
                self.assertEqual([line for line in words.splitlines() if len(line) > 80], [])
        self.assertIn("\n  virtrain doctor                          what this host can do", listed)
        self.assertIn("\nRead results:\n  list ", listed)
        self.assertNotIn("Subcommands:", listed, "each verb has its heading")
        self.assertNotIn("not with", self.succeed("report", "--help").out, "what excludes what is said when it is done")
        self.assertIn("  --connect URI ", self.succeed("clean", "--help").out)
        words = self.succeed("isolate", "--help").out
        self.assertEqual(" ".join(words.split()).count("(with --security)"), 1, "of the file alone")
        alone, _, with_probes = words.partition("\nWith --security:\n")
        for option in ("--wait", "--report", "--expect"):
            self.assertNotIn(f"  {option} ", alone.replace(",", " "))
            self.assertIn(option, with_probes)
        words = self.succeed("compare", "--help").out
        self.assertIn("\n  virtrain compare\n      the latest experiment, vm / bare_metal\n  virtrain compare --db study.db", words)
        self.assertIn("date:FROM..TO (UTC, both\nends included), arm:NAME. Without", words, "lines of one paragraph are joined")

    def test_mistakes_are_answered_with_what_to_write(self):
        for arguments, status, words in (
                (("run", "quickstrat"), 3, "quickstrat: no such file; did you mean quickstart?"),
                (("run", "."), 3, ". is a folder"),
                (("--db", "x.db", "list"), 2, "--db belongs behind the command: virtrain list --db"),
                (("list", "x.db"), 2, "did you mean --db x.db?"),
                (("list", "--db"), 2, "--db needs a value: --db FILE"),
                (("list", "--db", "."), 4, ". is a folder (give a file in it with --db)"),
                (("schedule",), 2, "virtrain schedule needs one of its commands (add, list, remove, run)"),
                (("ack",), 2, "virtrain ack needs change: "),
                (("run", "quickstart", "--pairs", "3"), 2, "did you mean --set pairs=…?"),
                (("run", "quickstart", "--batch_size", "3"), 2, "did you mean --set workload.batch_size=…?"),
                (("run", "quickstart", "--set", "paris=3"), 3, "did you mean pairs?"),
                (("run", "quickstart", "--mode", "root"), 2, "did you mean system?"),
                (("compare", "--explain=all"), 2, "--explain takes no value"),
                (("compare", "--margin", "2"), 2, "did you mean 2%?"),
                (("scenarios", "quickstart"), 2, "did you mean virtrain plan quickstart?"),
                (("reproduce", "dell"), 2, "did you mean dell-r750xa?"),
                (("doctor", "--explain", "iom1"), 2, "did you mean IOM-1?")):
            with self.subTest(arguments=arguments):
                result = virtrain(*arguments)
                self.assertEqual(result.status, status, result)
                self.assertIn(words, result.err)

    def test_the_program_by_itself_says_what_to_begin_with(self):
        result = self.succeed()
        self.assertIn("\n  virtrain demo ", result.out)
        self.assertLess(len(result.out.splitlines()), 15)

    def test_version(self):
        for word in ("--version", "-V", "version"):
            self.assertRegex(self.succeed(word).out, r"^virtrain \d+\.\d+\.\d+\n$")

    def test_help_is_a_verb_too(self):
        self.assertEqual(self.succeed("help").out, self.succeed("--help").out)
        self.assertEqual(self.succeed("help", "schedule", "add").out, self.succeed("schedule", "add", "--help").out)


class Usage(CommandLine):
    def test_what_is_not_known_is_a_usage_error(self):
        scenario = SCENARIOS / "quickstart.yaml"
        for words in [("frobnicate",), ("run",), ("plan", scenario, "--frobnicate"), ("plan", scenario, "--format", "xml"),
                      ("list", "--format", "yaml"), ("plan", scenario, "--inventory", "/nonexistent"),
                      ("plan", scenario, "--inventory", "a=/", "--inventory", "/"), ("plan", scenario, "--inventory", "a=/", "--inventory", "a=/"),
                      ("plan", scenario, "--inventory", "a=/", "--hosts", "a"),
                      ("--log-format", "xml", "schema"), ("run", "-", "--quiet", "--format", "json"),
                      ("import", scenario, "--precision", "fp17"), ("reproduce", "dell-r750xa", "--inventory", SCENARIOS),
                      ("export", "--view", "v_rank"), ("export", "--format", "prometheus", "--view", "v_rank"),
                      ("export", "--all", "--experiment", "e"), ("export", "--all", "--scenario", "s"), ("export", "--all", "--label", "l")]:
            with self.subTest(words=words):
                result = virtrain(*words)
                self.assertEqual(result.status, 2, result)
                self.assertEqual(result.out, "")
                self.assertTrue(result.err)

    def test_an_empty_value_is_not_the_default(self):
        self.succeed("import", SCENARIOS / "published/dell-r750xa.jsonl", "--db", self.database)
        selecting = [("compare", flag) for flag in ("--experiment", "--scenario", "--label", "--case", "--baseline", "--candidate")]
        selecting += [("report", "-o", "-", flag) for flag in ("--experiment", "--scenario", "--label", "--case", "--baseline", "--candidate")]
        selecting += [("show",), ("show", "--experiment"), ("export", "--label"), ("isolate", "--scenario"), ("changes", "--series"),
                      ("bisect", "a"), ("bisect", "a", "b", "--case"), ("bisect", "a", "b", "--arm"),
                      ("reproduce", "dell-r750xa", "--experiment"), ("clean", "--verify", "--lift-quarantine")]
        for words in selecting:
            with self.subTest(words=words):
                result = virtrain(*words, "", "--db", self.database)
                self.assertEqual((result.status, result.out), (2, ""), result)
                self.assertIn("an empty value is not allowed", result.err)
        self.assertEqual(virtrain("doctor", "").status, 2)

    def test_it_says_what_was_meant(self):
        for words, meant in [(("comapre",), "did you mean compare?"), (("schedule", "ad"), "did you mean add?"),
                             (("compare", "--experimnt", "x"), "did you mean --experiment?"),
                             (("compare", "--format", "cvs"), "(allowed: csv, json, markdown, table; did you mean csv?)"),
                             (("run", "x.yaml", "--mode", "sytem"), "did you mean system?"),
                             (("run", "x.yaml", "--dry-run"), "did you mean virtrain plan SCENARIO?"),
                             (("clean", "--dry-run"), "did you mean --verify?"),
                             (("diff",), "virtrain: there is no 'virtrain diff'; did you mean virtrain compare?\n"),
                             (("report", "--schedule", "n", "--case", "c"), "--case is not allowed together with --schedule"),
                             (("show", "a", "b"), "virtrain show does not take 'b'")]:
            with self.subTest(words=words):
                result = virtrain(*words)
                self.assertEqual(result.status, 2, result)
                self.assertIn(meant, result.err)
                self.assertRegex(result.err, r"\nvirtrain.* --help shows what it takes\n$")


class BadInput(CommandLine):
    def test_a_bad_scenario_is_named_with_its_position(self):
        text = (SCENARIOS / "quickstart.yaml").read_text().replace("  batch_size: 2", "  batch_sise: 2")
        path = self.file(text)
        line = text.splitlines().index("  batch_sise: 2") + 1
        for verb in ["validate", "plan", "run"]:
            with self.subTest(verb=verb):
                result = virtrain(verb, path)
                self.assertEqual(result.status, 3)
                self.assertEqual(result.out, "")
                self.assertIn(f"{path}:{line}:3: ", result.err)
                self.assertIn("batch_size", result.err, "it says what was meant")

    def test_shipped_scenarios_go_by_name(self):
        names = {row["name"]: row for row in self.succeed("scenarios", "--json").json()}
        self.assertIn("dell-r750xa", names)
        self.assertEqual(names["quickstart"]["path"], str(SCENARIOS / "quickstart.yaml"))
        self.assertIn("quickstart", self.succeed("scenarios").out)
        by_name = self.succeed("validate", "quickstart").out
        self.assertEqual(by_name, self.succeed("validate", "quickstart.yaml").out.replace("quickstart.yaml:", "quickstart:"))
        (self.folder / "quickstart").write_text("name: of-somebody-else\n")
        self.assertEqual(virtrain("validate", "quickstart", cwd=self.folder).out, by_name, "a file of that name changes nothing")
        self.assertEqual(virtrain("validate", "./quickstart").status, 3, "a path is a path")
        self.assertEqual(virtrain("validate", "no-such-scenario").status, 3)

    def test_a_missing_file(self):
        for verb in ["validate", "plan", "run", "import", "doctor"]:
            with self.subTest(verb=verb):
                result = virtrain(verb, self.folder / "none.yaml", *(["--db", self.database] if verb == "import" else []))
                self.assertEqual((result.status, result.out), (3, ""))
                self.assertIn(f"{self.folder}/none.yaml: no such file", result.err)

    def test_a_missing_database(self):
        for verb in ["list", "show", "compare", "export"]:
            with self.subTest(verb=verb):
                result = virtrain(verb, "--db", self.database)
                self.assertNotIn(result.status, [0, 130, 134, 139])
                self.assertEqual(result.out, "")
                self.assertIn(str(self.database), result.err)
                self.assertFalse(self.database.exists(), "looking makes no database")

    def test_reading_makes_nothing_of_an_empty_file_nor_of_a_missing_folder(self):
        empty = self.file("", "empty.db")
        for verb in ["list", "show", "compare", "export", "report", "changes"]:
            with self.subTest(verb=verb):
                result = virtrain(verb, "--db", empty, cwd=self.folder)
                self.assertEqual((result.status, result.out), (3, ""), result)
                self.assertIn(f"{empty} is empty (run or import something first", result.err)
                result = virtrain(verb, "--db", self.folder / "some/folder/x.db", cwd=self.folder)
                self.assertEqual((result.status, result.out), (3, ""), result)
                self.assertEqual(list(self.folder.iterdir()), [empty])
                self.assertEqual(empty.stat().st_size, 0)
        self.succeed("import", SCENARIOS / "published/dell-r750xa.jsonl", "--db", empty)
        self.succeed("list", "--db", empty)

    def test_a_file_that_is_no_database(self):
        path = self.file("not a database at all, but long enough to be looked at\n" * 100, "results.db")
        for verb in ["list", "compare"]:
            result = virtrain(verb, "--db", path)
            self.assertNotIn(result.status, [0, 134, 139])
            self.assertIn(str(path), result.err)

    def test_an_experiment_that_is_not_there(self):
        virtrain("import", SCENARIOS / "published/dell-r750xa.jsonl", "--db", self.database)
        for words in [("show", "nobody"), ("compare", "--experiment", "nobody")]:
            result = virtrain(*words, "--db", self.database)
            self.assertNotEqual(result.status, 0)
            self.assertIn("nobody", result.err)
        study = "dell-r750xa-published"
        for words, answer in [(("compare", "--baseline", "nope"), "compare: baseline: no trial ran in an arm nope"),
                              (("bisect", study, study, "--plan"), f"bisect {study}: its scenario is not stored")]:
            result = virtrain(*words, "--db", self.database)
            self.assertEqual(result.status, 3, result)
            self.assertIn(f"virtrain: {answer}", result.err)


class Outputs(CommandLine):
    def test_a_report_replaces_no_device_and_no_folder(self):
        virtrain("import", SCENARIOS / "published/dell-r750xa.jsonl", "--db", self.database)
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        came = self.folder / "came.html"
        with came.open("wb") as out, subprocess.Popen(["cat", pipe], stdout=out):
            self.succeed("report", "--db", self.database, "-o", pipe)
        self.assertIn("</html>", came.read_text(encoding="utf-8"))
        self.assertTrue(pipe.is_fifo(), "it is still a pipe")
        for verb in (("report",), ("export", "--format", "csv")):
            refused = virtrain(*verb, "--db", self.database, "-o", self.folder)
            self.assertEqual(refused.status, 4, refused)
            self.assertIn(str(self.folder), refused.err)

    def test_what_is_replaced_keeps_its_permissions(self):
        virtrain("import", SCENARIOS / "published/dell-r750xa.jsonl", "--db", self.database)
        for verb in ("report", "export", "changes"):
            old = self.file("old", verb)
            old.chmod(0o640)
            self.succeed(verb, "--db", self.database, "-o", old)
            self.assertNotEqual(old.read_text(encoding="utf-8"), "old")
            self.assertEqual(old.stat().st_mode & 0o7777, 0o640, verb)

    def test_a_descriptor_that_the_shell_gives_is_written_to(self):
        virtrain("import", SCENARIOS / "published/dell-r750xa.jsonl", "--db", self.database)
        came = self.folder / "came.csv"
        command = f"exec 7> {came}; {BUILD}/virtrain export --format csv --db {self.database} -o /dev/fd/7"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(came.read_text(), self.succeed("export", "--format", "csv", "--db", self.database).out)

    def test_where_a_report_cannot_be_is_said_before_the_run(self):
        for place, words in ((self.folder, "it is a folder"), (self.folder / "none/r.html", "there is no folder"),
                             ("-", "prints its table there; name a file")):
            refused = virtrain("run", "-", "--db", self.database, "--report", place, stdin=small_scenario())
            self.assertEqual(refused.status, 2, refused)
            self.assertIn(words, refused.err)
            self.assertFalse(self.database.exists(), "nothing was run")

    def test_words_that_are_stored_are_utf_8(self):
        refused = subprocess.run([f"{BUILD}/virtrain", "run", "-", "--db", self.database, "--label", b"caf\xe9"],
                                 input=small_scenario().encode(), capture_output=True, check=False)
        self.assertEqual(refused.returncode, 2, refused)
        self.assertIn(b"UTF-8", refused.stderr)


class HostUnable(CommandLine):
    def test_a_scenario_for_gpus_that_are_not_there(self):
        # A host of one core is small for Dell's study whatever machine this test runs on.
        host = self.folder / "host/proc"
        host.mkdir(parents=True)
        (host / "cpuinfo").write_text("processor\t: 0\nmodel name\t: none\nflags\t: fpu\n")
        (host / "meminfo").write_text("MemTotal: 1048576 kB\nMemAvailable: 1048576 kB\n")
        result = virtrain("plan", SCENARIOS / "dell-r750xa.yaml", "--inventory", self.folder / "host")
        self.assertEqual(result.status, 4)
        self.assertEqual(result.out, "")
        # A line for each resource, with the largest demand.
        self.assertEqual(len(result.err.splitlines()), 4, result.err)
        self.assertIn("case weak-scaling/4: 4 nodes of 32 vCPUs need 128 cores, host unknown has 0", result.err)
        self.assertIn("case weak-scaling/4: 4 nodes of 64GiB and QEMU's own 350MiB each need", result.err)
        self.assertRegex(result.err, r"case \S+: needs 4 GPUs, host unknown has 0 that devices.select allows .*; 5 smaller demands for GPUs")

    def test_run_of_it_here_changes_nothing(self):
        if list(pathlib.Path("/sys/bus/pci/drivers").glob("nvidia*")):
            self.skipTest("this host may have GPUs")
        result = virtrain("run", SCENARIOS / "dell-r750xa.yaml", "--db", self.database)
        self.assertEqual(result.status, 4, result)
        self.assertIn("GPU", result.err)
        self.assertFalse(self.database.exists())


class Plan(CommandLine):
    def test_json_says_where_everything_goes(self):
        plan = self.succeed("plan", SCENARIOS / "quickstart.yaml", "--format", "json").json()
        self.assertEqual([t["order"] for t in plan["trials"]], list(range(1, len(plan["trials"]) + 1)))
        self.assertGreater(plan["estimate_seconds"], 0)
        self.assertEqual(plan["vm_boots"], sum(t["nodes"] for t in plan["trials"] if t["arm"] == "vm"))
        for trial in plan["trials"]:
            self.assertTrue({"order", "case", "arm", "pair", "nodes", "estimate_seconds", "tenants"} <= trial.keys())
            nodes = [node for tenant in trial["tenants"] for node in tenant["nodes"]]
            self.assertEqual(len(nodes), trial["nodes"])
            for node in nodes:
                self.assertTrue({"hostname", "cores", "numa_node", "memory_bytes", "devices", "network"} <= node.keys())
                self.assertEqual(node["memory_bytes"], 768 << 20)
                self.assertEqual(len(node["cores"]), 1)
                self.assertNotIn("xml", node)

    def test_xml_shows_the_domains_of_vm_trials(self):
        plan = self.succeed("plan", SCENARIOS / "quickstart.yaml", "--format", "json", "--xml").json()
        numbers = []
        for trial in plan["trials"]:
            for node in (node for tenant in trial["tenants"] for node in tenant["nodes"]):
                self.assertEqual("xml" in node, trial["arm"] == "vm")
                if "xml" not in node:
                    continue
                numbers.append(int(re.search(r"<name>virtrain-EXPERIMENT-(\d+)</name>", node["xml"]).group(1)))
                self.assertIn(f'<vcpupin vcpu="0" cpuset="{node["cores"][0]}" />', node["xml"])
                self.assertIn(f'vt.host={node["hostname"]} vt.ip={node["network"]["address"]} ', node["xml"])
                self.assertIn(f'<mac address="{node["network"]["mac"]}" />', node["xml"])
                if validator := shutil.which("virt-xml-validate"):
                    checked = subprocess.run([validator, str(self.file(node["xml"], "domain.xml")), "domain"],
                                             capture_output=True, text=True)
                    self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertEqual(len(numbers), plan["vm_boots"])
        self.assertEqual(sorted(set(numbers)), numbers, "domains are numbered as they come")
        table = self.succeed("plan", SCENARIOS / "quickstart.yaml", "--xml").out
        self.assertEqual(table.count("<domain "), 5)

    def test_works_without_privilege_and_without_libvirt(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become somebody else")
        copy = self.folder / "copy"
        copy.mkdir()
        for program in ("virtrain", "virtrain-host"):
            shutil.copy(BUILD / program, copy)
        shutil.copy(SCENARIOS / "quickstart.yaml", copy)
        self.folder.chmod(0o755)
        def plan_as_nobody():
            result = virtrain("--reuid=65534", "--regid=65534", "--clear-groups", "env", "-i", "LIBVIRT_DEFAULT_URI=test:///none",
                              copy / "virtrain", "plan", copy / "quickstart.yaml", "--db", copy / "none.db", program="/usr/bin/setpriv")
            self.assertEqual(result.status, 0, result)
            return result.out

        def without_what_is_roots(plan):
            """Which cores another run of root's has, and whether a guest image is in root's cache."""
            return re.sub(r"\bcore \d+", "core", re.sub(r"to \d+ min\n(guest image: .*\n)?", "to some minutes\n", plan))

        theirs, roots = (without_what_is_roots(plan)
                         for plan in (plan_as_nobody(), self.succeed("plan", SCENARIOS / "quickstart.yaml", "--db", copy / "none.db").out))
        self.assertEqual(*(re.sub(r"mode \w+", "mode", plan) for plan in (theirs, roots)))

    def test_values_and_cases_may_be_changed_for_once(self):
        plan = self.succeed("plan", "quickstart", "--case", "weak-scaling/2", "--set", "pairs=3", "--set", "workload.batch_size=4",
                            "--set", "arms=[bare_metal]", "--format", "json").json()
        self.assertEqual([(trial["case"], trial["arm"], trial["pair"]) for trial in plan["trials"]],
                         [("weak-scaling/2", "bare_metal", pair) for pair in (1, 2, 3)])
        self.assertEqual({tenant["workload"]["batch_size"] for trial in plan["trials"] for tenant in trial["tenants"]}, {4})
        family = self.succeed("plan", "quickstart", "--case", "weak-scaling", "--format", "json").json()
        self.assertEqual({trial["case"] for trial in family["trials"]}, {"weak-scaling/1", "weak-scaling/2"})
        for words, status, said in [(("--case", "weak-scalin/2"), 2, "did you mean weak-scaling/2?"),
                                    (("--set", "pairs"), 2, "this is not KEY=VALUE"),
                                    (("--set", "cases.name=x"), 2, "cases is a list (set all of it)"),
                                    (("--set", "pairs=[1"), 2, "the value is not YAML"),
                                    (("--set", "pairs=0"), 3, "quickstart as changed by the command line:"),
                                    (("--set", "worklod.batch_size=4"), 3, "did you mean workload?")]:
            with self.subTest(words=words):
                refused = virtrain("plan", "quickstart", *words)
                self.assertEqual((refused.status, refused.out), (status, ""), refused)
                self.assertIn(said, refused.err)

    def test_it_begins_with_the_host_and_has_a_line_a_case(self):
        out = self.succeed("plan", "quickstart", "--db", self.database).out
        self.assertRegex(out.splitlines()[0], r"^quickstart on host \S+ \(\d+ cores?, \S+, .+\), mode \w+$")
        self.assertRegex(out, r"\nweak-scaling/2 +2  bare_metal, vm +1 +2  \d+")
        self.assertNotIn("order", out)
        self.assertIn("\norder  case", self.succeed("plan", "quickstart", "--trials", "--db", self.database).out)

    def test_reads_standard_input(self):
        result = self.succeed("plan", "-", stdin=small_scenario())
        self.assertIn("bare_metal_shared", result.out)
        self.assertIn("1 trial, 0 VM boots", result.out)
        self.assertIn("valid: 1 case, 1 arm, 1 pair\n", self.succeed("validate", "-", stdin=small_scenario()).out)
        self.assertIn("<stdin>:1:1: ", virtrain("validate", "-", stdin="[]").err)

    def test_a_plan_over_two_recorded_hosts(self):
        """Nodes go to both, each with that host's cores; what one of them lacks is said of it."""
        folder = pathlib.Path(__file__).parent.parent / "data/inventory/two-nodes"
        both = ["--inventory", f"b={folder}", "--inventory", f"a={folder}"]
        text = json.dumps({"name": "hosts", "workload": {"batch_size": 2}, "guest": {"vcpus": 2, "memory": "768MiB"}, "arms": ["bare_metal", "vm"], "pairs": 2,
                           "cases": [{"name": "weak", "scale": {"nodes": [1, 2], "per_host": 1}}]})
        trials = self.succeed("plan", "-", *both, "--format", "json", stdin=text).json()["trials"]
        nodes = trials[-1]["tenants"][0]["nodes"]
        self.assertEqual([(node["host"], node["hostname"]) for node in nodes], [("a", "t1n1"), ("b", "t1n2")])
        self.assertEqual(nodes[0]["cores"], nodes[1]["cores"])
        self.assertIn("on hosts a, b", self.succeed("plan", "-", *both, stdin=text).out)
        refused = virtrain("plan", "-", *both, stdin=text.replace("[1, 2]", "[1, 4]"))
        self.assertEqual(refused.status, 4)
        self.assertIn("4 nodes with 1 on each host need 4 hosts, there are 2", refused.err)

    def test_a_recorded_host(self):
        folder = pathlib.Path(__file__).parent.parent / "data/inventory/two-nodes"
        text = small_scenario(arms=["vm"], cases=[{"name": "two", "tenants": [{"nodes": 2}]}])
        plan = self.succeed("plan", "-", "--inventory", folder, "--format", "json", stdin=text).json()
        self.assertEqual(plan["trials"][0]["nodes"], 2)


class Schema(CommandLine):
    def test_is_json_schema(self):
        schema = self.succeed("schema").json()
        self.assertIn("json-schema.org", schema["$schema"])
        self.assertIn('"workload"', json.dumps(schema))


class Doctor(CommandLine):
    def test_colour_is_as_the_user_says(self):
        self.assertNotIn("\x1b[", virtrain("--color", "never", "doctor").out)
        self.assertIn("\x1b[", virtrain("--color", "always", "doctor").out)

    def test_json_is_a_list_of_findings(self):
        findings = virtrain("doctor", "--format", "json").json()
        self.assertTrue(findings)
        for finding in findings:
            self.assertEqual(finding.keys(), {"id", "severity", "status", "found", "fix"})
            self.assertIn(finding["severity"], {"blocks", "invalidates", "warns", "notes"})
        self.assertEqual(len({f["id"] for f in findings}), len(findings))


class Diagnose(CommandLine):
    LOG = "".join(f"n1:1{r}:2 [{r}] NCCL INFO comm 0x1 rank {r} nranks 2 cudaDev {r} busId 1000 - Init START\n" for r in (0, 1))

    def log(self, name, *said):
        return self.file(self.LOG + "".join(f"n1:10:2 [0] NCCL INFO {line}\n" for line in said), name=name)

    def test_a_vm_beside_bare_metal(self):
        vm = self.log("vm.log", "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct")
        metal = self.log("metal.log", "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read")
        result = self.succeed("diagnose", vm, "--baseline", metal)
        self.assertIn("1. NCL-1: GPUs of one node do not reach each other directly", result.out)
        self.assertIn("cannot tell the size of a loss", result.out)
        findings = json.loads(self.succeed("diagnose", vm, "--baseline", metal, "--json").out)
        self.assertEqual([f["id"] for f in findings], ["NCL-1"])
        self.assertIn("SHM/direct/direct", findings[0]["evidence"])
        self.assertIn("Nothing that is known here is wrong", self.succeed("diagnose", "-", stdin=metal.read_text()).out)

    def test_a_log_and_a_recorded_host_that_explain_each_other(self):
        host = pathlib.Path(BUILD) / "hosts/r750xa"
        vm = self.log("vm.log", "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", "Channel 00/0 : 0[0] -> 1[1] via NET/IB/0")
        alone = json.loads(self.succeed("diagnose", "--inventory", host, "--json").out)
        self.assertIn("RDM-1", [f["id"] for f in alone])
        together = json.loads(self.succeed("diagnose", vm, "--inventory", host, "--json").out)
        self.assertEqual(virtrain("diagnose").status, 2)
        self.assertIn("needs files", virtrain("diagnose").err)
        self.assertNotIn("CH-1", [f["id"] for f in together])  # about lending, and no cause of slowness
        self.succeed("diagnose", "--host")

    def test_an_anonymous_recording_is_taken_everywhere(self):
        folder = self.folder / "recorded"
        result = self.succeed("doctor", "--record", folder, "--anonymous")
        self.assertIn("will hold, for whoever gets it", result.out)
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self.assertEqual((folder / "proc/sys/kernel/hostname").read_text().strip(), "host")
        for file in folder.rglob("*"):
            if file.is_file() and not file.is_symlink():
                self.assertNotIn(boot.encode(), file.read_bytes(), file)
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith(".virtrain-")], [])
        self.succeed("diagnose", "--inventory", folder)
        self.assertIn("GPUs in VMs", virtrain("doctor", "--inventory", folder).out)
        self.succeed("plan", "quickstart", "--inventory", folder)
        again = virtrain("doctor", "--record", folder, "--anonymous")
        self.assertEqual(again.status, 3)
        self.assertIn("exists already", again.err)
        self.assertEqual(virtrain("doctor", "--anonymous").status, 2)

    def test_files_that_say_nothing(self):
        other = self.file("hello\n", name="other.log")
        result = virtrain("diagnose", other)
        self.assertEqual(result.status, 3, result)
        self.assertIn("NCCL_DEBUG=INFO", result.err)
        result = self.succeed("diagnose", other, self.log("vm.log", "Using network IB"))
        self.assertIn("it is passed over", result.err)
        self.assertEqual(virtrain("diagnose", self.folder / "none").status, 3)
        empty = self.folder / "empty"
        empty.mkdir()
        (empty / "binary").write_bytes(b"\0\1")
        self.assertEqual(virtrain("diagnose", empty).status, 3)
        self.assertTrue(self.succeed("diagnose", self.folder, "--format", "csv").out.startswith("id,finding,"))


class Topology(CommandLine):
    DOMAIN = """<domain type='kvm'><name>theirs</name><devices><controller type='pci' index='0' model='pcie-root'/>
      <controller type='pci' index='1' model='pcie-root-port'><address type='pci' bus='0x00' slot='0x02' function='0x0'/></controller>
      <hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x18' slot='0x00' function='0x0'/></source>
      <address type='pci' domain='0' bus='0x01' slot='0' function='0'/></hostdev></devices></domain>"""

    def test_of_a_vm_of_others(self):
        result = self.succeed("topology", "--for-guest", "-", "--inventory", BUILD / "hosts/hgx-h200", stdin=self.DOMAIN)
        self.assertIn('<pci busid="0000:01:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16" />', result.out)

    def test_what_is_no_domain_is_refused_by_name(self):
        result = virtrain("topology", "--for-guest", self.file("root:x:0:0", name="bad.xml"))
        self.assertEqual(result.status, 3)
        self.assertIn("bad.xml: it is not XML", result.err)


class Published(CommandLine):
    def test_the_study_gives_its_known_numbers(self):
        source = SCENARIOS / "published/dell-r750xa.jsonl"
        self.assertIn("1 experiment, 7 trials", self.succeed("import", source, "--db", self.database).out)
        table = self.succeed("compare", "--db", self.database).out
        for number in ["1.956", "3.872", "97.8 %", "96.8 %", "0.9868"]:
            self.assertIn(number, table)
        cases = {c["case"]: c for c in self.succeed("compare", "--db", self.database, "--format", "json").json()}
        self.assertAlmostEqual(cases["weak-scaling/2"]["arms"]["vm"]["speedup"], 1.956, delta=0.0005)
        self.assertAlmostEqual(cases["weak-scaling/4"]["arms"]["vm"]["speedup"], 3.872, delta=0.0005)
        self.assertAlmostEqual(cases["weak-scaling/2"]["arms"]["vm"]["efficiency"], 0.978, delta=0.0005)
        self.assertAlmostEqual(cases["weak-scaling/4"]["arms"]["vm"]["efficiency"], 0.968, delta=0.0005)
        self.assertAlmostEqual(1 - cases["weak-scaling/4"]["ratio"], 0.0132, delta=0.00005)
        self.assertIn(": skipped, already in ", self.succeed("import", source, "--db", self.database).out, "the same file a second time")

    def test_the_database_may_come_from_the_environment_and_the_experiment_by_its_id(self):
        self.succeed("import", SCENARIOS / "published/dell-r750xa.jsonl", "--db", self.database)
        by_option = self.succeed("compare", "--db", self.database, "--experiment", "dell-r750xa-published", "--format", "json")
        environment = {**os.environ, "VIRTRAIN_DB": str(self.database)}
        self.assertEqual(virtrain("compare", "dell-r750xa-published", "--json", env=environment), by_option)
        self.assertEqual(virtrain("list", "--json", "--format", "csv", env=environment).status, 2)

    def test_every_format(self):
        self.succeed("import", SCENARIOS / "published/dell-r750xa.jsonl", "--db", self.database)
        for verb in ["list", "show", "compare"]:
            with self.subTest(verb=verb):
                self.succeed(verb, "--db", self.database, "--format", "json").json()
                self.assertIn("\r\n", self.succeed(verb, "--db", self.database, "--format", "csv").out.replace("\n", "\r\n"))
                self.assertIn("|---", self.succeed(verb, "--db", self.database, "--format", "markdown").out)


class StoredProbes(CommandLine):
    def test_a_leak_fails_the_gate_and_options_of_a_run_are_refused(self):
        for name, result, status in (("good", "not_found", 0), ("bad", "leak", 1), ("unsure", "inconclusive", 5)):
            record = {"record": "security", "experiment": name, "arm": "vm", "name": "host_memory", "result": result, "control": True,
                      "scanned": 100, "total": 100, "unit": "B"}
            lines = [{"record": "experiment", "experiment": name, "scenario": "s", "status": "finished"}, record]
            source = self.file("".join(json.dumps(line) + "\n" for line in lines), f"{name}.jsonl")
            self.succeed("import", source, "--db", self.database)
            words = ("isolate", "--security", "--experiment", name, "--db", self.database)
            self.succeed(*words)
            self.assertEqual(virtrain(*words, "--expect").status, status, name)
            self.assertEqual(virtrain(*words, "--devices-only").status, 2, "nothing is run")


class Import(CommandLine):
    def test_the_good_files_of_a_sweep_are_imported_and_the_failed_ones_are_listed(self):
        logs = self.folder / "logs"
        logs.mkdir()
        good = [f"{name},{rate}" for name, rate in (("bare_metal", 100.5), ("vm", 99))]
        for name, lines in {"a.csv": good[:1], "b.csv": ["vm,none"], "c.csv": good[1:]}.items():
            (logs / name).write_text("\n".join(["where,ips", *lines, ""]))
        words = ("import", logs / "a.csv", logs / "b.csv", logs / "c.csv", "--db", self.database, "--map", "ips=images_per_second", "--map",
                 "where=arm", "--experiment", "e", "--case", "c", "--nodes", "1", "--gpus-per-node", "1")
        refused = virtrain(*words)
        self.assertEqual(refused.status, 3, refused)
        self.assertRegex(refused.err, r"b\.csv:2:.*none")
        self.assertEqual(virtrain("list", "--db", self.database, "--format", "json").out.strip() or "[]", "[]", "all or nothing")
        done = self.succeed(*words, "--skip-failed")
        self.assertRegex(done.out + done.err, r"b\.csv:2:.*none")
        rows = self.succeed("export", "--format", "json", "--db", self.database).json()
        self.assertEqual([(row["arm"], row["images_per_second"]) for row in rows], [("bare_metal", 100.5), ("vm", 99)])
        self.assertEqual(virtrain("import", logs / "b.csv", "--skip-failed", *words[4:]).status, 3, "none was good")


class Killed(CommandLine):
    def killed(self, *arguments, **environment):
        """The verb, which the kernel kills when a file of it gets larger than a page."""
        def limit():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        result = virtrain(*arguments, preexec_fn=limit, env={**os.environ, **environment})
        self.assertEqual(result.status, -signal.SIGXFSZ, result)

    def setUp(self):
        super().setUp()
        self.succeed("import", SCENARIOS / "published/dell-r750xa.jsonl", "--db", self.database)

    def test_an_export_leaves_nothing_that_shows(self):
        before = set(self.folder.glob("[!.]*"))
        for words in (("--bundle", self.folder / "e.tar.gz"), ("-o", self.folder / "e.jsonl")):
            self.killed("export", "--all", "--db", self.database, *words)
            self.assertEqual(set(self.folder.glob("[!.]*")), before)

    def test_an_import_of_a_database_leaves_no_copy(self):
        there, other = self.folder / "tmp", self.folder / "other.db"
        there.mkdir()
        self.succeed("import", SCENARIOS / "published/resnet50-per-gpu.jsonl", "--db", other)
        self.killed("import", self.database, "--db", other, TMPDIR=str(there), SQLITE_TMPDIR=str(there))
        self.assertEqual(list(there.iterdir()), [])


class Run(CommandLine):
    """A real run of the real trainer, as small as it can be."""

    def run_small(self, *arguments, before=(), **changes):
        result = virtrain(*before, "run", "-", "--wait", "--db", self.database, *arguments, stdin=small_scenario(**changes))
        self.assertEqual(result.status, 0, result)
        return result

    def test_results_go_to_stdout_and_logs_to_stderr(self):
        result = self.run_small()
        self.assertRegex(result.err.splitlines()[0], EXPERIMENT)
        self.assertIn("one", result.out)
        self.assertIn("bare_metal_shared", result.out)
        self.assertIn(f"database: {self.database}", result.out)
        self.assertIn(f"next: virtrain compare --explain --db {self.database} (", result.out)
        self.assertIn("1 trial finished", result.err)
        self.assertNotIn("finished", result.out)
        self.assertIsNone(EXPERIMENT.search(result.out.replace(result.err.splitlines()[0], "")))
        for stream in (result.out, result.err):
            self.assertNotIn("\x1b", stream, "no colour and no cursor moves where there is no terminal")
        experiments = self.succeed("list", "--db", self.database, "--format", "json").json()
        self.assertEqual(len(experiments), 1)

    def test_the_demonstration_shows_a_study_and_then_measures_here(self):
        report = self.folder / "demo.html"
        result = self.succeed("demo", "--wait", "--db", self.database, "--report", report)
        study, measured = result.out.split("2. A measurement on this host")
        self.assertIn("authors' figures", study)
        self.assertRegex(study, r"weak-scaling/4 +vm +10675\.1 +3\.872")
        self.assertRegex(measured, r"\nweak-scaling/1 +3 +[\d.]+  [\d.]+ … [\d.]+ ")
        self.assertRegex(measured, r"\nweak-scaling/2 .* [\d.]+ +[\d.]+ %\n")
        self.assertIn("<html", report.read_text())
        rows = self.succeed("list", "--db", self.database, "--json").json()
        self.assertEqual({row["scenario"] for row in rows}, {"dell-r750xa", "demo"})

    def test_json_logs_are_json(self):
        result = self.run_small(before=("-v", "--log-format", "json"))
        lines = result.err.splitlines()
        self.assertRegex(lines[0], EXPERIMENT)
        logged = [json.loads(line) for line in lines[1:-1]]
        self.assertTrue(any("stage run" in json.dumps(line) for line in logged))

    def test_as_process_1_of_a_container_it_reaps_orphans_and_keeps_its_status(self):
        unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
            unshare = ["unshare", "--user", "--map-root-user", *unshare[1:]]
        inner = f'(sh -c "sleep 0.2 & exec true"); exec {BUILD}/virtrain list --db {self.folder}/none.db'
        done = subprocess.run([*unshare, "sh", "-c", inner], capture_output=True, text=True, timeout=60, check=False)
        self.assertNotIn("process 1", done.stderr)
        self.assertIn("does not exist", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_quiet_is_one_line(self):
        result = self.run_small("--quiet")
        self.assertRegex(result.out, r"^virtrain small \S+: 1 trial finished, 0 failed in [^\n]+\n$")
        self.assertEqual([line for line in result.err.splitlines() if not line.startswith("warning: ")], [], "cron mails it")

    def test_what_failed_is_run_again_pair_by_pair(self):
        arms = ["bare_metal_shared", {"name": "again", "like": "bare_metal_shared"}]
        workload = {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": 2, "env": {"A": "1"}}
        first = self.run_small("--label", "cut", arms=arms, pairs=3, workload=workload).err.splitlines()[0]
        complete = self.succeed("run", "--resume", first, "--db", self.database)
        self.assertEqual(complete.out, f"all pairs of {first} have finished: there is nothing to run\n")
        with contextlib.closing(sqlite3.connect(self.database)) as database, database:
            database.execute("UPDATE trial SET status = 'failed', throughput = NULL, unit = NULL WHERE pair = 2 AND arm = 'again'")
        refused = virtrain("run", "--resume", first, "--db", self.database)
        self.assertEqual((refused.status, refused.out), (2, ""))
        self.assertIn("run with your rights", refused.err)
        self.assertIn("\n  workload.env.A: 1\n", refused.err)
        rest = self.succeed("run", "--resume", first[:12], "--wait", "--yes", "--db", self.database)
        second = rest.err.splitlines()[0]
        rows = self.succeed("export", "--db", self.database, "--experiment", second).out.splitlines()
        trials = [record for record in map(json.loads, rows) if record["record"] == "trial"]
        self.assertEqual(sorted((trial["arm"], trial["pair"]) for trial in trials), [("again", 2), ("bare_metal_shared", 2)])
        self.assertEqual({trial["label"] for trial in trials}, {"cut"})
        # Both together have three whole pairs.
        self.assertIn(f"next: virtrain compare --explain --experiment {second} --experiment {first} --db {self.database} (", rest.out)
        both = self.succeed("compare", "--experiment", first, "--experiment", second, "--db", self.database, "--json").json()
        self.assertEqual(both[0]["n"], 3, both)
        for words, said in [(("--set", "pairs=1"), "--resume"), (("-",), "--resume")]:
            self.assertIn(said, virtrain("run", "--resume", first, *words, "--db", self.database).err)
        self.assertEqual(virtrain("run", "--resume", "20990101", "--db", self.database).status, 3)

    def test_label_is_kept(self):
        self.run_small("--label", "first")
        self.assertIn("first", self.succeed("list", "--db", self.database).out)
        self.succeed("compare", "--db", self.database, "--label", "first")


if __name__ == "__main__":
    unittest.main()
