#!/usr/bin/python3
"""apt_mirror_test.py SOURCE: the mirror that scripts/lab and scripts/try-cuda12 take, with a stand-in for apt-get."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))


class AptMirror(unittest.TestCase):
    def ask(self, lines, *words):
        with tempfile.TemporaryDirectory() as folder:
            apt = pathlib.Path(folder, "apt-get")
            apt.write_text("#!/bin/sh\ncat <<'END'\n" + "".join(line + "\n" for line in lines) + "END\n", encoding="utf-8")
            apt.chmod(0o755)
            script = f'set -euo pipefail; . "{SOURCE}/scripts/apt_mirror.sh"; apt_mirror "$@"'
            done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    OTHER = "https://packages.example/tool/|stable|$(CODENAME)|$(LABEL)"
    SECURITY = "http://a.mirror/debian-security/|bookworm-security|bookworm-security|Debian-Security"

    def test_the_mirror_of_the_machines_own_sources_is_taken(self):
        for release, codename, wanted in (("bookworm", "bookworm", "bookworm"), ("bookworm", "$(CODENAME)", "bookworm"),  # no lists yet
                                          ("stable", "bookworm", "bookworm"), ("trixie", "trixie", "bookworm")):
            lines = [self.OTHER, self.SECURITY, f"http://a.mirror/debian/|{release}|{codename}|Debian",
                     f"http://b.mirror/debian/|{release}|{codename}|Debian"]
            self.assertEqual(self.ask(lines, "Debian", wanted), (0, "http://a.mirror/debian/", ""))
        lines = ["http://a.mirror/debian/|trixie|trixie|Debian", "http://b.mirror/debian/|bookworm|bookworm|Debian"]
        self.assertEqual(self.ask(lines, "Debian", "bookworm")[1], "http://b.mirror/debian/")

    def test_where_there_is_none_it_says_so(self):
        code, out, err = self.ask([self.OTHER, self.SECURITY], "Ubuntu", "noble")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("apt has no source of Ubuntu: add one below /etc/apt", err)

    def test_no_script_has_an_address_of_its_own(self):
        scripts = [path for path in (SOURCE / "scripts").rglob("*") if path.is_file() and path.suffix != ".pyc"]
        for path in scripts:
            text = path.read_text(encoding="utf-8", errors="replace")
            for address in ("deb.debian.org", "archive.ubuntu.com", "pypi.org", "pythonhosted.org"):
                self.assertNotIn(address, text, path)


if __name__ == "__main__":
    unittest.main()
