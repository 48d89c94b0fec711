#!/usr/bin/python3
"""What bash, fish and zsh offer when they run their script of `virtrain completion` and the real virtrain."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from command_line import BUILD, SOURCE, verbs, virtrain

VERBS = verbs()
# zsh completes in a terminal only; there the line that it made becomes an argument of print.
ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1= RPS1=; autoload -Uz compinit; compinit -D -u; source $1; print re\"\"ady"
zpty -r -m shell seen "*ready*"
print -v keys "\t\001print -r \"<\005>\""
zpty -w shell "$2$keys" && zpty -r -m shell seen "*<$3*>*" && print -r -- $seen"""


class Completion(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-completion-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.database = self.folder / "results.db"
        self.environment = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "VIRTRAIN_DB": str(self.database), "HOME": str(self.folder)}
        (self.folder / "a file.yaml").touch()
        (self.folder / "folder").mkdir()

    def run_shell(self, shell, *words):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed")
        return subprocess.run([shell, *map(str, words)], capture_output=True, text=True, env=self.environment, cwd=self.folder, timeout=60,
                              check=True, stdin=subprocess.DEVNULL).stdout

    def bash(self, *words):
        script = virtrain("completion", "bash").out
        call = '\ncomplete -p virtrain > /dev/null && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && _virtrain && printf "%s\\n" "${COMPREPLY[@]}"'
        return [line for line in self.run_shell("bash", "--norc", "-c", script + call, "_", "virtrain", *words).split("\n") if line]

    def fish(self, line):
        script = virtrain("completion", "fish").out
        return [offer.split("\t")[0] for offer in self.run_shell("fish", "-N", "-c", script + "\ncomplete -C $argv[1]", line).splitlines()]

    def zsh(self, line, expected):
        script = self.folder / ".script"
        script.write_text(virtrain("completion", "zsh").out)
        self.assertIn(f"<{expected}", self.run_shell("zsh", "-f", "-c", ZSH, "_", script, line, expected))

    def import_published(self):
        self.assertEqual(virtrain("import", SOURCE / "scenarios/published/dell-r750xa.jsonl", "--db", self.database).status, 0)
        return [line.split(",")[0] for line in virtrain("list", "--format", "csv", "--db", self.database).out.splitlines()[1:]]

    def test_bash_knows_every_verb(self):
        self.assertEqual(set(self.bash("")), VERBS)

    def test_bash_knows_formats_and_programs(self):
        self.assertEqual(set(self.bash("run", "--format", "")), {"table", "json", "csv", "markdown"})
        self.assertEqual(self.bash("run", "--format", "=", "j"), ["json"])
        self.assertEqual(set(self.bash("run", "--format", "=")), {"table", "json", "csv", "markdown"})
        self.assertIn("junit", self.bash("changes", "--format", ""))
        self.assertEqual(self.bash("schedule", "re"), ["remove"])

    def test_every_option_of_help_is_offered(self):
        for verb in VERBS - {"schedule"}:
            options = set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", virtrain(verb, "--help").out, re.M))
            self.assertLessEqual(options, set(self.bash(verb, "--")), verb)

    def test_bash_completes_files_itself(self):
        self.assertEqual(self.bash("validate", "a"), ["a file.yaml"])
        self.assertEqual(self.bash("run", "--bundle", "f"), ["folder"])

    def test_experiments(self):
        ids = self.import_published()
        self.assertEqual(self.bash("show", ""), ids)
        self.assertLessEqual(set(ids), set(self.fish("virtrain show ")))
        self.zsh(f"virtrain show {ids[0][:-1]}", f"virtrain show {ids[0]}")

    def test_no_database_is_made(self):
        self.assertEqual(self.bash("show", ""), [])
        self.assertFalse(self.database.exists())

    def test_fish(self):
        self.assertIn("run", self.fish("virtrain ru"))
        self.assertEqual(self.fish("virtrain run --format m"), ["markdown"])
        self.assertEqual(self.fish("virtrain run --format=m"), ["--format=markdown"])
        self.assertEqual(self.fish("virtrain schedule ad"), ["add"])
        self.assertIn("--format", self.fish("virtrain run --fo"))
        self.assertIn("a file.yaml", self.fish("virtrain validate a"))
        self.assertEqual(self.fish("virtrain report --output=a"), ["--output=a file.yaml"])

    def test_zsh(self):
        for line, expected in [("ru", "run"), ("run --form", "run --format"), ("run --format mark", "run --format markdown"),
                               ("run --format=mark", "run --format=markdown"), ("schedule ad", "schedule add"),
                               ("validate a", r"validate a\ file.yaml"), ("report --output=a", r"report --output=a\ file.yaml")]:
            with self.subTest(line=line):
                self.zsh(f"virtrain {line}", f"virtrain {expected}")

    def test_other_shells_are_refused(self):
        result = virtrain("completion", "tcsh")
        self.assertEqual(result.status, 2)
        self.assertIn("allowed: bash, fish, zsh", result.err)


if __name__ == "__main__":
    unittest.main()
