#!/usr/bin/python3
"""What hostile text, files and full disks do to the command line: words without escapes, exit statuses, bounded time and memory."""

import gzip
import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import time
import unittest

from command_line import BUILD, SCENARIOS, small_scenario, virtrain

ESCAPES = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202eevil"
FORBIDDEN = ("\x1b", "\x07", "\u009b", "\u202e")
PUBLISHED = SCENARIOS / "published/dell-r750xa.jsonl"


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-hostile-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.database = self.folder / "results.db"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "XDG_CACHE_HOME": str(self.folder / "cache")}

    def file(self, text, name="scenario.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def assert_safe(self, result):
        for text in (result.out, result.err):
            for bad in FORBIDDEN:
                self.assertNotIn(bad, text)

    def bounded(self, *arguments, seconds=20, megabytes=600):
        """The verb under a limit of memory; how long it took."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        started = time.monotonic()
        result = virtrain(*arguments, preexec_fn=limit)
        self.assertLess(time.monotonic() - started, seconds)
        return result


class FullDisk(Hostile):
    """Row 14."""

    def test_every_verb_says_that_its_output_is_not_written(self):
        self.assertEqual(virtrain("import", PUBLISHED, "--db", self.database).status, 0)
        scenario = self.file(small_scenario())
        for words in [("list", "--db", self.database), ("show", "--db", self.database), ("compare", "--db", self.database),
                      ("compare", "--format", "json", "--db", self.database), ("export", "--db", self.database),
                      ("report", "--db", self.database, "-o", "-"), ("plan", scenario), ("validate", scenario), ("schema",),
                      ("reproduce", "dell-r750xa", "--print-scenario"), ("--help",), ("--version",), ("list", "--help")]:
            with self.subTest(words=words), open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([str(BUILD / "virtrain"), *map(str, words)], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertRegex(done.stderr, r"No space left on device|not complete")

    def test_a_reader_that_has_seen_enough_is_no_error(self):
        self.assertEqual(virtrain("import", PUBLISHED, "--db", self.database).status, 0)
        scenario = self.file(small_scenario(pairs=100))
        reader, gone = os.pipe()
        self.addCleanup(os.close, gone)
        os.close(reader)
        for words in [("schema",), ("report", "--db", self.database, "-o", "-"), ("plan", scenario, "--format", "json"),
                      ("compare", "--db", self.database, "--format", "json", "--expect")]:
            with self.subTest(words=words):
                command, usual = [str(BUILD / "virtrain"), *map(str, words)], virtrain(*words)
                self.assertGreater(len(usual.out), 4096, "more than is kept back until the end")
                done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
                self.assertEqual((done.returncode, done.stderr), (usual.status, usual.err))
        done = subprocess.run([str(BUILD / "virtrain"), "show", "nobody", "--db", str(self.database)], stderr=gone, timeout=120, check=False)
        self.assertEqual(done.returncode, 3)


class Escapes(Hostile):
    """Row 10."""

    def test_import_errors_show_no_content_raw(self):
        for name, text in [("a.jsonl", '{"record":"' + ESCAPES.replace("\x1b", "\\u001b").replace("\x07", "\\u0007") + '"}'),
                           ("b.jsonl", '{"' + ESCAPES + '":1}'), ("c.csv", ESCAPES + ",images_per_second\n1,2\n"),
                           ("d.jsonl", '{"record":"' + "A" * 3_000_000)]:
            with self.subTest(name=name):
                result = virtrain("import", self.file(text, name), "--db", self.database)
                self.assertEqual(result.status, 3)
                self.assert_safe(result)
                self.assertLess(len(result.err), 20_000)
                self.assertIn(f"{name}:1", result.err)

    def test_names_of_files_and_flags_are_shown_safely(self):
        named = self.file("no results\n" * 99, "a" + ESCAPES + ".jsonl")
        for words in [("import", named, "--db", self.database), ("validate", named), ("list", "--db", named),
                      ("list", "--" + ESCAPES), (ESCAPES,), ("show", ESCAPES, "--db", self.database)]:
            with self.subTest(words=words):
                result = virtrain(*words)
                self.assertNotEqual(result.status, 0)
                self.assert_safe(result)

    def test_names_of_good_files_are_shown_safely(self):
        scenario = self.file(small_scenario(), "s" + ESCAPES + ".yaml")
        self.assertEqual(virtrain("import", PUBLISHED, "--db", self.database).status, 0)
        for words in [("validate", scenario), ("doctor", scenario),
                      ("export", "--db", self.database, "--bundle", self.folder / ("b" + ESCAPES + ".tar.gz"))]:
            with self.subTest(words=words):
                result = virtrain(*words)
                self.assertEqual(result.status, 0, result.err)
                self.assertIn("evil", result.out)
                self.assert_safe(result)

    def test_what_a_database_holds_is_shown_safely(self):
        record = {"record": "trial", "experiment": "e" + ESCAPES, "scenario": "s" + ESCAPES, "label": "l" + ESCAPES, "case": "c" + ESCAPES,
                  "nodes": 1, "gpus_per_node": 0, "images_per_second": 10, "environment": {"k" + ESCAPES: "v" + ESCAPES}}
        lines = [json.dumps({**record, "arm": arm, "pair": pair}) for arm in ("bare_metal", "vm") for pair in (1, 2, 3)]
        self.assertEqual(virtrain("import", self.file("\n".join(lines) + "\n", "a.jsonl"), "--db", self.database).status, 0)
        for words in [("list",), ("show",), ("compare",), ("compare", "--explain"), ("export", "--format", "prometheus"),
                      ("export", "--format", "superbench"), ("export", "--format", "mlperf"), ("export",), ("report", "-o", "-"),
                      *[(verb, "--format", form) for verb in ("list", "show", "compare") for form in ("json", "csv", "markdown")]]:
            with self.subTest(words=words):
                result = virtrain(*words, "--db", self.database)
                self.assertEqual(result.status, 0, result.err)
                self.assert_safe(result)
        exported = virtrain("export", "--db", self.database).out
        again = virtrain("import", self.file(exported, "b.jsonl"), "--db", self.folder / "again.db")
        self.assertEqual(again.status, 0, again.err)
        self.assertEqual(virtrain("export", "--db", self.folder / "again.db").out, exported)

    def test_clean_shows_variables_of_others_safely(self):
        marked = {**os.environ, "VIRTRAIN_SLICE": "vt-" + ESCAPES, "VIRTRAIN_EXPERIMENT": "20261120t080000-" + ESCAPES + "\nremoved: x"}
        with subprocess.Popen(["sleep", "60"], env=marked) as sleeper:
            try:
                result = virtrain("clean", "--verify", "--connect", "test:///default", env=self.environment)
            finally:
                sleeper.kill()
        self.assertIn(result.status, (0, 6), result.err)
        self.assertIn("evil", result.out + result.err, "it was seen")
        self.assert_safe(result)
        self.assertNotIn("\nremoved: x", result.out)


class Databases(Hostile):
    """Row 18."""

    def test_a_short_text_is_no_database_and_stays_as_it_is(self):
        for text in ("x", "no results\n" * 99):
            named = self.file(text, "notes.txt")
            for verb in ("list", "show", "compare"):
                result = virtrain(verb, "--db", named)
                self.assertEqual(result.status, 3, result)
                self.assertIn(str(named), result.err)
            self.assertEqual(named.read_text(), text)


class Bounds(Hostile):
    """Rows 7 and 18."""

    def test_a_scenario_of_one_comma(self):
        result = self.bounded("validate", self.file(","))
        self.assertEqual(result.status, 3)
        self.assertIn("scenario.yaml:1:1: not YAML", result.err)

    def test_sixty_thousand_variables(self):
        for count, words in ((60_000, "more than 100000 values"), (45_000, "env has 45000 variables (allowed: at most 1024)")):
            text = small_scenario(workload={"batch_size": 2, "env": {f"V{i}": "x" for i in range(count)}})
            result = self.bounded("validate", self.file(text), seconds=5)
            self.assertEqual(result.status, 3)
            self.assertIn(words, result.err)

    def test_more_trials_than_a_plan_can_hold(self):
        cases = [{"name": f"c{i}", "tenants": [{"nodes": 1}]} for i in range(256)]
        for verb in ("validate", "plan"):
            result = self.bounded(verb, self.file(small_scenario(cases=cases, pairs=10_000)))
            self.assertEqual(result.status, 3)
            self.assertIn("256 cases in 1 arm, 10000 times, are 2560000 trials", result.err)

    def test_the_largest_plan(self):
        cases = [{"name": f"c{i}", "tenants": [{"nodes": 1}]} for i in range(5)]
        result = self.bounded("plan", self.file(small_scenario(cases=cases, pairs=10_000)), megabytes=1500)
        self.assertEqual(result.status, 0, result.err)

    def test_a_scenario_without_an_end(self):
        for words, refused in ((("validate", "/dev/zero"), "neither a regular file nor a pipe"), (("validate", "-"), "more than 1 MiB"),
                               (("validate", "/dev/stdin"), "more than 1 MiB")):
            with self.subTest(words=words), subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
                try:
                    done = subprocess.run([str(BUILD / "virtrain"), *words], stdin=endless.stdout, capture_output=True, text=True, timeout=20,
                                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20)), check=False)
                finally:
                    endless.kill()
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(refused, done.stderr)

    def test_a_scenario_from_a_pipe(self):
        for path in ("-", "/dev/stdin"):
            result = virtrain("validate", path, stdin=small_scenario())
            self.assertEqual((result.status, result.out), (0, f"{path}: valid: 1 case, 1 arm, 1 pair\n"), result.err)

    def test_a_recorded_host_of_odd_files(self):
        scenario = self.file(small_scenario())
        for odd in ("/dev/zero", "pipe"):
            proc = self.folder / odd.strip("/").replace("/", "-") / "proc"
            proc.mkdir(parents=True)
            (proc / "cpuinfo").write_text("processor : 0\n")
            os.mkfifo(proc / "pipe")
            (proc / "meminfo").symlink_to(odd)
            result = self.bounded("plan", scenario, "--inventory", proc.parent)
            self.assertEqual(result.status, 3, result.err)
            self.assertIn("is it a recorded host?", result.err)

    def test_small_files_of_many_rows(self):
        head = ("# Collective test starting: all_reduce_perf\n"
                "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n")
        rows = gzip.compress((head + "8 2 float sum -1 1 1 1 0 1 1 1 0\n" * 500_000 + "# Avg bus bandwidth : 1\n").encode())
        (self.folder / "all_reduce_perf.gz").write_bytes(rows)
        self.assertLess(len(rows), 100_000)
        line = 16 << 20
        texts = {
            "all_reduce_perf.gz": (None, "more than 100000 rows"),
            "ranks.txt": (head + "".join(f"# Rank {i} Group 0 Pid 1 on host device 0\n" for i in range(100_001)), "more than 100000 lines of ranks"),
            "commas.csv": ("images_per_second" + "," * (line - 20) + "\n", "more than 10000 cells"),
            "odd.csv": ("," * (line - 1) + "\n", "no format that import reads"),
            "old.log": ("|reframe 3" + "|" * (line - 20) + "\n", "more than 10000 cells"),
            "step.log": ("1\timages/sec: 1" + "\t" * (line - 20) + "\ntotal images/sec: 1\n", "broke off"),
            "totals.log": ("total images/sec: 1\n--------\n" * 100_001, "more than 100000 lines of totals"),
        }
        for name, (text, refused) in texts.items():
            with self.subTest(name=name):
                if text:
                    self.file(text, name)
                of_trial = [] if name in ("all_reduce_perf.gz", "ranks.txt") else ["--case", "c", "--gpus-per-node", "1"]
                result = self.bounded("import", self.folder / name, "--db", self.database, "--experiment", "e", "--arm", "vm", "--nodes", "1",
                                      *of_trial, seconds=60)
                self.assertEqual(result.status, 3, result.err)
                self.assertIn(refused, result.err)


class ManyRows(Hostile):
    """What grows with the square of the rows shows here, and what has a bound says so."""

    def imported(self, rows):
        common = {"record": "trial", "scenario": "s", "nodes": 1, "gpus_per_node": 1, "pair": 1, "status": "finished",
                  "images_per_second": 100}
        text = "\n".join(json.dumps({**common, **row}) for row in rows)
        result = virtrain("import", self.file(text, "rows.jsonl"), "--db", self.database)
        self.assertEqual(result.status, 0, result.err)

    def test_exports_of_twenty_thousand_experiments(self):
        self.imported({"experiment": f"e{i}", "case": "c", "arm": "vm"} for i in range(20_000))
        for form in ("prometheus", "superbench"):
            result = self.bounded("export", "--all", "--format", form, "--db", self.database, seconds=40)
            self.assertEqual(result.status, 0, result.err)
            self.assertGreaterEqual(result.out.count("\n"), 20_000)

    def test_a_comparison_beside_many_published_scalings(self):
        self.imported({"experiment": experiment, "case": f"weak/{nodes}", "arm": arm, "nodes": nodes,
                       **({"label": "published"} if experiment != "ours" else {"virtualization": "none", "pair": 1})}
                      for experiment in ("a", "b", "c", "d", "e", "ours") for nodes in range(1, 1501) for arm in ("bare_metal", "vm"))
        result = self.bounded("compare", "--experiment", "ours", "--format", "json", "--db", self.database, seconds=20)
        self.assertEqual(result.status, 0, result.err)
        result = self.bounded("compare", "--experiment", "ours", "--predict", "8", "--db", self.database)
        self.assertEqual(result.status, 3, result.err)
        self.assertIn("was measured on 1500 numbers of nodes (allowed with --predict: 300)", result.err)

    def test_a_report_of_more_than_a_page_can_show(self):
        self.imported({"experiment": "e", "case": f"c{i}", "arm": "vm"} for i in range(20_001))
        result = self.bounded("report", "--db", self.database, "-o", self.folder / "r.html")
        self.assertEqual(result.status, 3, result.err)
        self.assertIn("20001 trials are chosen (allowed in one report: 20000)", result.err)


class Strangers(Hostile):
    def test_no_address_of_libvirt_starts_a_program(self):
        shown = self.folder / "started"
        program = self.file(f"#!/bin/sh\necho > {shown}\n", "program")
        program.chmod(0o755)
        result = virtrain("clean", "--verify", "--connect", f"qemu+ext:///system?command={program}", env=self.environment)
        self.assertEqual(result.status, 2, result)
        self.assertIn("qemu:///system", result.err)
        self.assertFalse(shown.exists())

    def test_ranks_keep_their_files_in_a_folder_of_the_run(self):
        told = self.folder / "told"
        mpirun = self.file('#!/bin/sh\n[ "$1" = --version ] && exec /usr/bin/mpirun.openmpi --version\n'
                           f'{{ echo "$@"; echo "$TMPDIR"; stat -c %a "$TMPDIR"; ls -d /tmp/ompi.*.$(id -u); }} > {told} 2>&1\nexit 1\n',
                           "mpirun.openmpi")
        mpirun.chmod(0o755)
        environment = {**self.environment, "PATH": f"{self.folder}:{os.environ['PATH']}", "TMPDIR": "/tmp"}
        scenario = self.file(small_scenario(cases=[{"name": "two", "tenants": [{"nodes": 2}]}]))
        virtrain("run", scenario, "--wait", "--db", self.database, env=environment)
        words, folder, mode = told.read_text(encoding="utf-8").split("\n")[:3]
        self.assertEqual(mode, "700")
        self.assertRegex(pathlib.Path(folder).name, r"^virtrain-vt-.*-[0-9a-f]{16}$")
        self.assertIn(f"_tmpdir_base {folder} ", words)
        self.assertIn(f"_backing_directory {folder} ", words)
        self.assertFalse(pathlib.Path(folder).exists(), "it goes with the run")

if __name__ == "__main__":
    unittest.main()
