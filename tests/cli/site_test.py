#!/usr/bin/python3
"""`virtrain report --schedule`: a static site, read by an HTML parser."""

import html.parser
import json
import re
import stat
import unittest

from command_line import InAFolder, small_scenario, virtrain
from nights import HOSTILE, records, write


class Page(html.parser.HTMLParser):
    """Links, ids, addresses that would be fetched, and text outside of scripts."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.fetched, self.words, self.policy, self.inside = [], set(), [], "", "", []
        self.tags, self.headings = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.add(tag)
        self.inside.append(tag)
        if tag in ("h1", "h2"):
            self.headings.append("")
        if tag == "a":
            self.links.append(attributes["href"])
        if "id" in attributes:
            self.ids.add(attributes["id"])
        self.fetched += [attributes[name] for name in ("src", "data", "poster") if name in attributes]
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self.inside):
            self.words += data
            if {"h1", "h2"} & set(self.inside):
                self.headings[-1] += data


class Site(InAFolder):
    def setUp(self):
        super().setUp()
        self.site = self.folder / "site"
        scenario = self.folder / "nightly.yaml"
        scenario.write_text(small_scenario(name="nightly"))
        book = self.folder / "config/virtrain/schedules"
        book.mkdir(parents=True)
        (book / "every-night.json").write_text(json.dumps({"name": "every-night", "scenario": str(scenario), "at": "02:00", "days": "",
                                                           "database": str(self.database), "patience_seconds": 0, "notify": "",
                                                           "webhook_file": ""}))

    def nights(self, lines):
        self.assertEqual(virtrain("import", write(self.folder / "nights.jsonl", lines), "--db", self.database).status, 0)

    def report(self, *arguments, status=0):
        return self.virtrain("report", *arguments, status=status)

    def write_site(self, *options):
        return self.report("--schedule", "every-night", "--out", self.site, *options).out

    def pages(self):
        return {path.name: path.stat().st_mtime_ns for path in self.site.glob("night*.html")}

    def test_an_index_and_a_page_for_each_night(self):
        self.nights(records(range(15), 950) + records(range(15, 18), 855, HOSTILE))
        self.nights(records(range(3), 1, scenario="other-nightly"))
        changes = virtrain("changes", "--db", self.database, "--series", "nightly/one/vm/ratio", "--format", "json").json()
        self.assertEqual(virtrain("ack", changes[0]["id"], f"fine {HOSTILE}", "--db", self.database).status, 0)
        self.assertIn("18 pages written, 0 unchanged", self.write_site())
        page = Page((self.site / "index.html").read_text())
        self.assertIn("default-src 'none'", page.policy)
        self.assertEqual(page.fetched, [])
        self.assertRegex(page.words, r"-10\.0 % since 2026-10-16 in 1 series")
        self.assertRegex(page.words, r"-10\.0 % \(-10\.\d % to -9\.\d %\), worse, since 2026-10-16, open")
        self.assertIn("since 2026-10-16, acknowledged", page.words)
        self.assertIn("Acknowledged: fine a \"quoted\"", page.words)
        self.assertIn("<b>&amp;]]></b> \ufffd[31m \ufffd", page.words)
        self.assertNotIn("b", page.tags)
        self.assertNotIn("other-nightly", page.words)
        self.assertIn("svg", page.tags)
        nights = {f"night-nightly-n{night:02}.html" for night in range(18)}
        self.assertEqual(set(self.pages()), nights)
        self.assertEqual({link for link in page.links if not link.startswith(("#", "data:text/csv;"))}, nights)
        self.assertLessEqual({link[1:] for link in page.links if link.startswith("#")}, page.ids)
        night = Page((self.site / "night-nightly-n16.html").read_text())
        self.assertIn("virtrain report", night.words)
        self.assertIn("nightly-n16", night.words)
        self.assertNotIn("nightly-n15", night.words)

    def test_an_event_is_shown_once_with_its_suspects_and_the_command_that_accepts_it(self):
        self.nights(records(range(15), 950, "mpi-4.1.4") + records(range(15, 18), 855, "mpi-4.1.7"))
        self.write_site()
        index = (self.site / "index.html").read_text()
        page = Page(index)
        changes = virtrain("changes", "--db", self.database, "--format", "json").json()
        self.assertEqual(len(changes), 2)  # of images/s and of the ratio
        heading = re.sub(r"\s+", " ", page.headings[0]).strip()
        self.assertEqual(heading, "-10.0 % since 2026-10-16 in 2 series; suspect: label")
        self.assertEqual(len([one for one in page.headings if "since 2026-10-16" in one]), 2)  # the headline, and its section
        self.assertEqual(index.count('class="event '), 1)
        self.assertIn("Suspects: label (mpi-4.1.4 → mpi-4.1.7).", page.words)
        ids = " ".join(one["id"] for one in changes)
        command, = re.findall(r"for change in ([0-9a-f ]+); do virtrain ack \$change \"why\" --db (\S+); done", page.words)
        self.assertEqual((set(command[0].split()), command[1]), (set(ids.split()), str(self.database)))
        self.assertEqual(index.count('class="sparkline"'), 3)  # each series once
        self.assertEqual(page.words.count("At their level"), 1)
        for change in changes:
            self.assertEqual(virtrain("ack", change["id"], "new library", "--db", self.database).status, 0)
        self.write_site()
        page = Page((self.site / "index.html").read_text())
        self.assertEqual(page.headings[0].strip(), "No loss is open in 3 series")
        self.assertIn("Acknowledged: new library", page.words)

    def test_a_page_is_made_again_only_if_its_night_changed(self):
        self.nights(records(range(4), 950))
        self.write_site("--nights", "2")
        self.assertEqual(sorted(self.pages()), ["night-nightly-n02.html", "night-nightly-n03.html"])
        before = self.pages()
        self.nights(records(range(4, 5), 950) + records(range(3, 4), 900, case="two")[1:])
        self.assertIn("2 pages written, 0 unchanged", self.write_site("--nights", "2"))
        after = self.pages()
        self.assertEqual(after.pop("night-nightly-n02.html"), before["night-nightly-n02.html"])
        self.assertNotEqual(after["night-nightly-n03.html"], before["night-nightly-n03.html"])
        self.assertIn("0 pages written, 2 unchanged", self.write_site("--nights", "2"))
        self.assertEqual(self.pages(), {**after, "night-nightly-n02.html": before["night-nightly-n02.html"]})
        self.assertIn("night-nightly-n02.html", Page((self.site / "index.html").read_text()).links)

    def test_links_in_the_folder_are_replaced_and_names_do_not_leave_it(self):
        lines = records(range(2), 950)
        for line in lines:
            line["experiment"] = line["experiment"].replace("nightly-n01", "../../x/<i>")
        self.nights(lines)
        victim = self.folder / "victim"
        victim.write_text("mine")
        self.site.mkdir()
        for name in ("index.html", "night-nightly-n00.html"):
            (self.site / name).symlink_to(victim)
        self.write_site()
        self.assertEqual(victim.read_text(), "mine")
        for path in self.site.iterdir():
            self.assertTrue(stat.S_ISREG(path.lstat().st_mode), path)
            self.assertRegex(path.name, r"^(index|night-nightly-n00|night\.[0-9a-f]{64})\.html$")
        self.assertEqual(len(list(self.site.iterdir())), 3)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir() if path.name == "x"), [])

    def test_what_cannot_be_is_refused(self):
        self.nights(records(range(1), 950))
        self.assertIn("every-night", self.report("--schedule", "nobody", "--out", self.site, status=3).err)
        file = self.folder / "file"
        file.write_text("mine")
        self.assertIn("it is a file", self.report("--schedule", "every-night", "--out", file, status=2).err)
        self.assertIn("cannot make the folder", self.report("--schedule", "every-night", "--out", "x" * 300, status=2).err)
        self.assertIn("--out DIR", self.report("--schedule", "every-night", status=2).err)
        self.report("--out", self.site, status=2)
        self.report("--schedule", "every-night", "--out", self.site, "--db", self.database, status=2)
        self.assertEqual(file.read_text(), "mine")
        self.assertFalse(self.site.exists())


unittest.main()
