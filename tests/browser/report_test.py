#!/usr/bin/python3
"""report_test.py VIRTRAIN [unittest's arguments]: the report as readers meet it, in real headless Chromium."""

import csv
import io
import json
import os
import pathlib
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
VIRTRAIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
for needed in ("/usr/bin/chromium", "/usr/bin/chromedriver", "/usr/bin/node"):
    if not shutil.which(needed):
        print(f"skipped: {needed} is missing (scripts/setup installs it)")
        sys.exit(77)

import made_data  # noqa: E402
from PIL import Image  # noqa: E402
from browser import Browser  # noqa: E402
from hostile_texts import HOSTILE, SHOWN, poison  # noqa: E402
from selenium.common.exceptions import NoAlertPresentException  # noqa: E402


def setUpModule():
    global FOLDER
    FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-browser-"))
    for name in ("study", "nights", "conditions", "isolation", "long"):
        (FOLDER / f"{name}.jsonl").write_text("\n".join(getattr(made_data, name)()) + "\n")
        virtrain("import", FOLDER / f"{name}.jsonl", "--db", FOLDER / f"{name}.db")
    virtrain("import", HERE.parents[1] / "scenarios/published/dell-r750xa.jsonl", "--db", FOLDER / "dell.db")
    (FOLDER / "both.jsonl").write_text("\n".join(made_data.study(scenario="dell-r750xa", windows=0)) + "\n")
    virtrain("import", HERE.parents[1] / "scenarios/published/dell-r750xa.jsonl", FOLDER / "both.jsonl", "--db", FOLDER / "both.db")
    virtrain("report", "study-1", "--db", FOLDER / "both.db", "-o", FOLDER / "both.html")
    shutil.copy(FOLDER / "nights.db", FOLDER / "hostile.db")
    with sqlite3.connect(FOLDER / "hostile.db") as database:
        database.execute("UPDATE experiment SET scenario = ?, host_name = ?, label = ?, command_line = ?, scenario_text = ?", [HOSTILE] * 5)
        database.execute("UPDATE trial SET \"case\" = \"case\" || ?, invalid_reason = ?", [HOSTILE] * 2)
        database.execute("UPDATE trial SET arm = arm || ? WHERE arm = 'vm' AND pair = 3", [HOSTILE])
    shutil.copy(FOLDER / "study.db", FOLDER / "poisoned.db")
    with sqlite3.connect(FOLDER / "poisoned.db") as database:
        assert poison(database) > 25, "hardly any text was poisoned"
    for name in ("study", "conditions", "isolation", "long", "dell", "poisoned"):
        virtrain("report", "--db", FOLDER / f"{name}.db", "-o", FOLDER / f"{name}.html")
    for name, scenario in (("nights", "nightly"), ("hostile", HOSTILE)):
        virtrain("report", "--db", FOLDER / f"{name}.db", "--scenario", scenario, "-o", FOLDER / f"{name}.html")
    write_site("nights", "nightly")


def write_site(name, scenario):
    """The site of a schedule that was never run here."""
    file = FOLDER / f"{scenario}.yaml"
    file.write_text(f"name: {scenario}\nworkload: {{batch_size: 2, image_size: 32, warmup_steps: 0, steps: 2}}\nguest: {{vcpus: 1, memory: 768MiB}}\n"
                    "cases: [{name: one, tenants: [{nodes: 1}]}]\narms: [bare_metal_shared]\npairs: 1\n")
    book = FOLDER / "config/virtrain/schedules"
    book.mkdir(parents=True)
    (book / f"{scenario}.json").write_text(json.dumps({"name": scenario, "scenario": str(file), "at": "02:00", "days": "", "database": str(FOLDER / f"{name}.db"),
                                                       "patience_seconds": 0, "notify": "", "webhook_file": ""}))
    virtrain("report", "--schedule", scenario, "--out", FOLDER / "site", "--nights", "2", XDG_CONFIG_HOME=str(FOLDER / "config"))


def tearDownModule():
    shutil.rmtree(FOLDER)


def virtrain(*arguments, **environment):
    done = subprocess.run([VIRTRAIN, *map(str, arguments)], capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode != 0 or "warning" in done.stderr:
        raise AssertionError(f"virtrain {arguments[0]}: {done.returncode}\n{done.stderr}")
    return done.stdout


def query(name, sql):
    with sqlite3.connect(FOLDER / f"{name}.db") as database:
        return database.execute(sql).fetchall()


def count(browser, selector):
    return browser.run("return document.querySelectorAll(arguments[0]).length", selector)


def texts_of(browser, selector):
    return browser.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)


def values(browser, figure):
    """What the figure's file has."""
    text = urllib.parse.unquote(browser.element(f"{figure} a[download]").get_attribute("href").split(",", 1)[1])
    return list(csv.DictReader(io.StringIO(text)))


def luminance(colour):
    channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


# Every text that is seen with its colour and the colour behind it; SVG texts by their fill.
TEXTS = """
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest('script, style, #tip') || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    let behind = element;
    while (behind && getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement;
    const back = behind ? getComputedStyle(behind).backgroundColor : 'rgb(255, 255, 255)';
    const ink = element.closest('svg') ? style.fill : style.color;
    const heat = element.closest('.slowdowns') !== null;
    if (!heat && style.opacity !== '0') found.set(ink + back, [ink, back, walker.currentNode.data.trim().slice(0, 40)]);
  }
  return [...found.values()];
"""


# Heads of columns in which no row has anything.
EMPTY_COLUMNS = """
  return [...document.querySelectorAll('table')].flatMap(t => [...t.tHead.rows[0].cells]
    .filter((h, i) => [...t.tBodies[0].rows].every(r => r.cells.length === t.tHead.rows[0].cells.length && !r.cells[i].textContent.trim()))
    .map(h => h.textContent));
"""


class Charts(unittest.TestCase):
    """What is drawn against what the database has, live and still."""

    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.driver.quit()

    def marks(self, figure, name, shape):
        live = count(self.browser, f"{figure} .live .{name} {shape}")
        for width in ("narrow", "wide"):
            self.assertEqual(count(self.browser, f"{figure} .still.{width} .{name} {shape}"), live, f"{figure} {name}, {width}")
        return live

    def test_nothing_on_the_console_and_nothing_from_the_network(self):
        for name in ("study", "nights", "conditions", "isolation", "site/index", "long", "dell"):
            with self.subTest(report=name):
                self.browser.requests()
                self.browser.open(FOLDER / f"{name}.html")
                self.assertEqual(self.browser.console(), [])
                fetched = [address for address in self.browser.requests() if not address.startswith(("chrome", "data:", "about:"))]
                self.assertEqual(fetched, [f"file://{FOLDER / name}.html"])

    def test_the_marks_are_the_rows(self):
        self.browser.open(FOLDER / "study.html")
        cases = query("study", "SELECT DISTINCT \"case\" FROM v_vm_vs_bare_metal")
        self.assertEqual(self.marks("#forest", "ratio_marks", "path"), len(cases))
        self.assertEqual(count(self.browser, ".verdicts tbody tr"), len(cases))
        self.assertEqual(self.marks("#throughput", "mean_marks", "path"), 2 * len(cases))
        self.assertEqual(self.marks("#throughput", "run_marks", "line"), query("study", "SELECT count(*) FROM trial")[0][0])
        steps = query("study", "SELECT DISTINCT \"case\", arm FROM v_speedup")
        self.assertEqual(self.marks("#scaling-1", "speedup_points", "path"), len(steps))
        self.assertEqual(self.marks("#scaling-1", "efficiency_points", "path"), len(steps))
        crowded = query("study", "SELECT DISTINCT \"case\", arm, tenant FROM v_tenant WHERE \"case\" IN "
                                 "(SELECT \"case\" FROM v_tenant WHERE tenant > 0)")
        self.assertEqual(self.marks("#isolation", "cell_marks", "path"), len(crowded))
        self.assertEqual(count(self.browser, "figure[id^=course-]"), len(cases))
        rows = query("study", "SELECT count(*) FROM trial")[0][0]
        self.assertEqual(count(self.browser, "#trials tbody tr"), rows)

    def test_a_line_has_a_point_for_each_sample(self):
        self.browser.open(FOLDER / "study.html")
        samples = query("study", "SELECT count(*) FROM sample s JOIN rank r ON r.id = s.rank_id JOIN tenant w ON w.id = r.tenant_id "
                                 "JOIN trial t ON t.id = w.trial_id WHERE t.\"case\" = 'weak-scaling/1' AND t.arm = 'vm' AND t.pair = 3")[0][0]
        cases = [row[0] for row in query("study", "SELECT \"case\" FROM trial GROUP BY 1 ORDER BY min(id)")]
        figure = f"#course-{cases.index('weak-scaling/1') + 1}"
        paths = self.browser.run("return [...document.querySelectorAll(arguments[0])].map(p => p.getAttribute('d'))",
                                 f"{figure} .live .mark-shape path")
        points = [len(re.findall("[ML]", path)) for path in paths]
        self.assertEqual(points[:2], [samples, samples])
        self.assertGreater(len(points), 4, "telemetry has lines too")

    def test_a_hundred_thousand_samples_become_two_thousand_points_and_the_dip_stays(self):
        self.browser.open(FOLDER / "long.html")
        paths = self.browser.run("return [...document.querySelectorAll('#course-1 .live .mark-shape path')].map(p => p.getAttribute('d'))")
        self.assertEqual(len(paths), 2)
        heights = []
        for path in paths:
            points = re.findall(r"[ML](-?[\d.]+),(-?[\d.]+)", path)
            self.assertLessEqual(len(points), 2000)
            heights.append([float(y) for _, y in points])
        self.assertLess(max(heights[0]) - min(heights[0]), 1)
        self.assertEqual(sum(y > max(heights[0]) + 20 for y in heights[1]), 1, "one dip, and it is drawn")
        self.assertIn("every dip and peak", self.browser.element("#course-1-summary").text)

    def test_the_series_shows_its_change(self):
        self.browser.open(FOLDER / "nights.html")
        for number, case in enumerate(("weak-scaling/1", "weak-scaling/2"), 1):
            nights = query("nights", f"SELECT DISTINCT experiment, arm FROM v_trial WHERE \"case\" = '{case}'")
            self.assertEqual(self.marks(f"#series-{number}", "point_marks", "path"), len(nights))
            self.assertEqual(self.marks(f"#series-{number}", "change_marks", "line"), 2)
        self.assertRegex(self.browser.element("#series-1-summary").text, r"VM: -8\.\d % \(.*\), worse, since 2026-10-25, open")

    def test_a_sweep_is_a_curve_through_its_means(self):
        self.browser.open(FOLDER / "conditions.html")
        means = {(case.split("@")[1], arm): mean for case, arm, mean in query(
            "conditions", "SELECT \"case\", arm, avg(images_per_second) FROM v_trial WHERE \"case\" LIKE 'swept@%' GROUP BY 1, 2")}
        self.assertEqual(self.marks("#sweep-1", "point_marks", "path"), len(means))
        self.assertEqual(self.marks("#sweep-1", "interval_marks", "line"), len(means))
        self.assertEqual(self.marks("#sweep-1", "mark-line", "path"), 2, "a curve for each arm")
        self.assertTrue({"16", "32", "64"} <= set(self.axis("#sweep-1")))
        rows = values(self.browser, "#sweep-1")
        arms = {"bare metal": "bare_metal", "VM": "vm"}
        for row in rows:
            self.assertAlmostEqual(float(row["images_per_second"]), means.pop((row["at"], arms[row["arm"]])), places=1)
        self.assertEqual(means, {})
        tops = [float(top) for top in self.browser.run("return [...document.querySelectorAll('#sweep-1 .live .point_marks path')]"
                                                       ".map(p => p.getAttribute('transform').match(/,\\s*([\\d.]+)/)[1])")]
        by_height = sorted(range(len(rows)), key=lambda i: -tops[i])
        self.assertEqual(by_height, sorted(range(len(rows)), key=lambda i: float(rows[i]["images_per_second"])))

    def test_a_heat_map_has_the_losses_in_columns_of_levels_that_there_are(self):
        self.browser.open(FOLDER / "conditions.html")
        runs = {}
        for arm, value in query("conditions", "SELECT arm, images_per_second FROM v_trial WHERE \"case\" = 'trainer' ORDER BY pair"):
            runs.setdefault(arm.removeprefix("vm"), []).append(value)
        alone = statistics.geometric_mean(runs.pop(""))
        losses = [f"{100 * (1 - statistics.geometric_mean(runs[beside]) / alone):.0f} %" for beside in ("+idle", "+cpu@50%", "+cpu@100%")]
        self.assertEqual(self.marks("#neighbours-1", "cell_marks", "path"), len(runs))
        for kind in ("live", "still.wide", "still.narrow"):
            self.assertEqual(texts_of(self.browser, f"#neighbours-1 .{kind} .slowdowns text"), losses)
        self.assertEqual(texts_of(self.browser, "#neighbours-1 .live .column_names text"), ["at rest", "level 50 %", "level 100 %"])
        self.assertEqual(texts_of(self.browser, "#neighbours-1 .live .row_names text"), ["idle", "cpu"])

    def test_mitigations_stand_side_by_side_with_their_intervals_before_all_else(self):
        self.browser.open(FOLDER / "isolation.html")
        runs = {}
        for arm, pair, value in query("isolation", "SELECT arm, pair, images_per_second FROM v_trial"):
            runs.setdefault(arm, {})[pair] = value
        arms, neighbours = list(made_data.ISOLATED), [made_data.beside(*one) for one in made_data.NEIGHBOURS]
        losses = {}
        for arm in arms:
            for neighbour in neighbours:
                kept = [runs[f"{arm}+{neighbour}"][pair] / alone for pair, alone in runs[arm].items()]
                losses[arm, neighbour] = round(100 * (1 - statistics.geometric_mean(kept)))
        self.assertEqual(self.marks("#neighbours-1", "cell_marks", "path"), len(arms) * len(neighbours))
        self.assertEqual(texts_of(self.browser, "#neighbours-1 .live .column_names text"), ["bare metal", "VM", "VM, pinned", "VM, capped"])
        self.assertEqual(set(texts_of(self.browser, "#neighbours-1 .live .row_names text")), set(neighbours))
        for kind in ("live", "still.wide", "still.narrow"):
            shown = [int(text.split()[0]) for text in texts_of(self.browser, f"#neighbours-1 .{kind} .slowdowns text")]
            self.assertEqual(sorted(shown), sorted(losses.values()))
            intervals = texts_of(self.browser, f"#neighbours-1 .{kind} .intervals text")
            self.assertEqual(len(intervals), len(losses))
            for loss, interval in zip(shown, intervals):
                low, high = map(float, interval.split(" to "))
                self.assertTrue(low - 0.5 <= loss <= high + 0.5 and low < high, (loss, interval))
        self.assertEqual(texts_of(self.browser, "main section > h2")[:3], ["Next to neighbours", "What helps how much", "Without a neighbour"])
        self.assertRegex(self.browser.element("h1").text, r"^trainer next to neighbours: bare metal loses up to 48 % \(.*\), VM up to 50 % \(.*\)$")
        self.assertEqual(texts_of(self.browser, "#throughput .key li"), ["bare metal", "VM", "VM, pinned", "VM, capped"])
        self.assertEqual(count(self.browser, ".no_data"), 0)
        self.assertNotIn("+cpu", "".join(texts_of(self.browser, ".notes, #environment")))

    def test_nodes_of_an_arm_have_shades_that_the_key_names(self):
        self.browser.open(FOLDER / "study.html")
        cases = [row[0] for row in query("study", "SELECT \"case\" FROM trial GROUP BY 1 ORDER BY min(id)")]
        figure = f"#course-{cases.index('weak-scaling/4') + 1}"
        key = texts_of(self.browser, f"{figure} .key li")
        self.assertEqual(key[4:], ["VM, and its node t0n0", "VM t0n1", "VM t0n2", "VM t0n3"])
        colours = self.browser.run("return [...document.querySelectorAll(arguments[0])].map(m => getComputedStyle(m).borderTopColor)", f"{figure} .key .mark")
        self.assertEqual(len(set(colours)), 8)
        for kind in ("live", "still.wide"):
            strokes = self.browser.run("return [...document.querySelectorAll(arguments[0])].map(p => getComputedStyle(p).stroke)", f"{figure} .{kind} .mark-shape path")
            self.assertEqual(set(strokes), set(colours), "each line is in the key")

    def test_numbers_of_axes_are_plain(self):
        for name in ("study", "isolation", "nights", "conditions", "site/index"):
            self.browser.open(FOLDER / f"{name}.html")
            labels = texts_of(self.browser, ".picture .role-axis-label text")
            self.assertGreater(len(labels), 20)
            self.assertEqual([label for label in labels if re.fullmatch(r"0k|[\d.]+m", label)], [])
            self.assertEqual([head for head in self.browser.run(EMPTY_COLUMNS)], [], f"{name}: heads above nothing")

    def test_the_site_shows_an_event_once_and_dates_apart(self):
        for width in (360, 1280):
            self.browser.open(FOLDER / "site/index.html", width)
            self.assertEqual(texts_of(self.browser, "h1"), ["-8.2 to -7.8 % since 2026-10-25 in 4 series"])
            self.assertEqual(self.browser.run("return [...document.querySelectorAll('h1 .date, h2 .date')].map(d => d.getClientRects().length)"), [1, 1])
            self.assertEqual(count(self.browser, ".event"), 1)
            self.assertEqual(count(self.browser, ".event .sparkline"), 4)
            self.assertEqual(count(self.browser, "#level .sparkline"), 4)
            self.assertRegex(self.browser.element(".event pre").text, r"^for change in( [0-9a-f]{8}){4}; do virtrain ack \$change")
            apart = self.browser.run("return [...document.querySelectorAll('.live .role-axis')].map(a => [...a.querySelectorAll('.role-axis-label text')]"
                                     ".filter(t => /^\\d\\d-\\d\\d$/.test(t.textContent) && getComputedStyle(t).opacity > 0).map(t => t.getBoundingClientRect())"
                                     ".sort((a, b) => a.left - b.left)).filter(l => l.length).map(l => Math.min(...l.slice(1).map((b, i) => b.left - l[i].right)))")
            self.assertEqual(len(apart), 8)
            self.assertGreater(min(apart), 5, f"{width}: dates do not touch")

    def test_a_heat_map_has_the_slowdowns_in_columns_of_tenants_that_there_are(self):
        self.browser.open(FOLDER / "conditions.html")
        alone = query("conditions", "SELECT avg(images_per_second) FROM v_trial WHERE \"case\" = 'alone'")[0][0]
        shared = query("conditions", "SELECT tenant, avg(images_per_second) FROM v_tenant WHERE \"case\" = 'crowded' GROUP BY 1 ORDER BY 1")
        self.assertEqual([index for index, _ in shared], [0, 2])
        self.assertEqual(texts_of(self.browser, "#isolation .live .column_names text"), ["tenant 1", "tenant 3"])
        self.assertEqual(texts_of(self.browser, "#isolation .live .slowdowns text"), [f"{alone / mean:.2f}×" for _, mean in shared])

    def test_published_figures_are_called_so(self):
        self.browser.open(FOLDER / "dell.html")
        self.assertIn("1.32 % below bare metal; no interval: single published values", self.browser.element("h1").text)
        words = self.browser.element("main").text
        for figure in ("1.956", "3.872", "97.8 %", "96.8 %", "published, no interval"):
            self.assertIn(figure, self.browser.run("return document.body.textContent"))
        self.assertIn("throughput over time: no trial has stored samples", words)

    def test_own_speedups_stand_beside_published_ones(self):
        self.browser.open(FOLDER / "both.html")
        own = query("both", "SELECT DISTINCT \"case\", arm FROM v_speedup WHERE experiment = 'study-1'")
        published = query("both", "SELECT DISTINCT \"case\", arm FROM v_speedup WHERE label = 'published'")
        self.assertEqual(self.marks("#scaling-1", "speedup_points", "path"), len(own) + len(published))
        self.assertIn("published, VM", self.browser.element("#scaling-1 .key").text)

    def test_the_mouse_names_what_it_is_on(self):
        self.browser.open(FOLDER / "study.html")
        self.browser.hover("#forest .live .ratio_marks path:nth-child(3)")
        self.browser.wait(lambda: "two-vms-two-gpus" in self.browser.element("#tip").text, "a tooltip with the case")
        self.assertIn("95 %", self.browser.element("#tip").text)
        self.browser.hover("#course-1 .live", dx=40)
        self.browser.wait(lambda: "images/s" in self.browser.element("#tip").text, "a tooltip with throughput")
        self.assertIn("CPU busy", self.browser.element("#tip").text)
        self.browser.hover("h1")
        self.browser.wait(lambda: not self.browser.element("#tip").is_displayed(), "the tooltip's end")

    def axis(self, figure):
        return sorted(texts_of(self.browser, f"{figure} .live .role-axis-label text"))  # Vega adds labels behind those that stay

    def test_dragging_zooms_and_a_double_click_shows_all(self):
        for report, figure in (("study", "#course-1"), ("nights", "#series-1")):
            with self.subTest(figure=figure):
                self.browser.open(FOLDER / f"{report}.html")
                whole = self.axis(figure)
                self.browser.drag(f"{figure} .live", (-60, 20), (80, 20))
                self.browser.wait(lambda: self.axis(figure) != whole, "another axis after dragging")
                self.assertRegex(self.browser.element(f"{figure} output").text, r"\d+ % of the time")
                self.browser.double_click()
                self.browser.wait(lambda: self.axis(figure) == whole, "the whole axis after a double click")

    def test_the_keyboard_zooms_too(self):
        self.browser.open(FOLDER / "study.html")
        whole = self.axis("#course-1")
        button = self.browser.element("#course-1 button[data-step=in]")
        self.browser.run("arguments[0].focus()", button)
        self.browser.keys("\ue007")  # Enter
        self.browser.wait(lambda: self.axis("#course-1") != whole, "another axis after Enter")
        outline = self.browser.run("return getComputedStyle(arguments[0]).outlineStyle", button)
        self.assertEqual(outline, "solid", "the focus is seen")
        self.browser.keys("\ue004" * 4 + " ")  # Tab to the last button, and press it
        self.browser.wait(lambda: self.axis("#course-1") == whole, "the whole axis again")


class Reading(unittest.TestCase):
    """Widths, colours, structure: without a mouse and without looking."""

    def test_no_page_scrolls_sideways(self):
        with Browser() as browser:
            for name in ("study", "nights", "isolation", "site/index", "dell", "hostile"):
                for width in (360, 768, 1280, 1920):
                    with self.subTest(report=name, width=width):
                        browser.open(FOLDER / f"{name}.html", width)
                        wide = browser.run("return [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, pre, .live, svg, .scenario') && "
                                           "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))")
                        self.assertEqual(wide, [])
                        self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), width)

    def test_no_table_is_clipped_on_a_telephone(self):
        with Browser() as browser:
            for name in ("study", "isolation", "site/index", "dell", "hostile"):
                browser.open(FOLDER / f"{name}.html", 360)
                clipped = browser.run("for (const d of document.querySelectorAll('details')) d.open = true;"
                                      "return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)"
                                      ".map(e => e.getAttribute('aria-label'))")
                self.assertEqual(clipped, [], name)
            browser.open(FOLDER / "study.html", 360)
            cell = ("const cell = document.querySelector('.verdicts td.number');"
                    "return getComputedStyle(cell, '::before').content.slice(1, -1) + cell.textContent")
            self.assertIn("Difference −", browser.run(cell))

    def test_short_words_of_tables_stay_whole_on_a_desktop(self):
        with Browser() as browser:
            for name in ("study", "isolation", "site/index", "dell"):
                browser.open(FOLDER / f"{name}.html", 1280)
                broken = browser.run("const range = document.createRange();"
                                     "return [...document.querySelectorAll('td, th')].filter(c => /^[a-z]{3,12}$/.test(c.innerText.trim()))"
                                     ".filter(c => (range.selectNodeContents(c.querySelector('bdi') ?? c),"
                                     " new Set([...range.getClientRects()].map(r => r.top)).size > 1)).map(c => c.innerText)")
                self.assertEqual(broken, [], name)

    def test_a_wide_screen_is_used(self):
        with Browser() as browser:
            browser.open(FOLDER / "study.html", 1280)
            self.assertGreater(browser.run("return document.querySelector('.verdicts').getBoundingClientRect().width"), 1150)
            words, picture = (browser.box(f"#course-1 {part}") for part in ("figcaption", ".picture"))
            self.assertLessEqual(words["x"] + words["width"], picture["x"], "words beside their picture")
            self.assertGreater(picture["width"], 800)
            browser.open(FOLDER / "study.html", 1920)
            self.assertGreater(browser.run("return document.body.getBoundingClientRect().width"), 1500)
            first, second = (browser.run("const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.left, b.top]", f"#course-{i}") for i in (1, 2))
            self.assertEqual(first[1], second[1], "side by side")

    def test_each_figure_has_its_values_as_a_file(self):
        with Browser() as browser:
            browser.open(FOLDER / "study.html")
            self.assertEqual(count(browser, "figure a[download$='.csv']"), count(browser, "figure"))
            rows = values(browser, "#forest")
            ratios = {}
            for case, ratio in query("study", "SELECT \"case\", ratio FROM v_vm_vs_bare_metal"):
                ratios.setdefault(case, []).append(ratio)
            self.assertEqual({row["case"] for row in rows}, set(ratios))
            for row in rows:
                self.assertAlmostEqual(float(row["ratio"]), statistics.geometric_mean(ratios[row["case"]]), places=9)

    def test_texts_stand_out_in_light_and_dark(self):
        with Browser() as browser:
            for scheme in ("light", "dark"):
                browser.open(FOLDER / "study.html", scheme=scheme)
                texts = browser.run(TEXTS)
                self.assertGreater(len(texts), 5)
                for ink, behind, words in texts:
                    self.assertGreaterEqual(contrast(ink, behind), 4.5, f"{scheme}: {words!r} {ink} on {behind}")
                paper = browser.run("return getComputedStyle(document.documentElement).backgroundColor")
                self.assertEqual(luminance(paper) > 0.5, scheme == "light")
                band = browser.run("return getComputedStyle(document.querySelector('#forest .key .band')).backgroundColor")
                self.assertGreaterEqual(contrast(band, paper), 1.35, f"{scheme}: the band is seen")
                for variable in ("--arm-0", "--arm-1", "--arm-2", "--arm-3", "--arm-4", "--arm-5"):
                    colour = browser.run("const e = document.body.appendChild(document.createElement('i')); e.style.color = `var(${arguments[0]})`;"
                                         "const c = getComputedStyle(e).color; e.remove(); return c", variable)
                    self.assertGreaterEqual(contrast(colour, paper), 3, f"{scheme}: {variable}")
                for level in range(6):
                    pair = browser.run("const e = document.body.appendChild(document.createElement('i')); e.style.cssText = "
                                       "`color: var(--heat-ink-${arguments[0]}); background: var(--heat-${arguments[0]})`; const s = getComputedStyle(e);"
                                       "const c = [s.color, s.backgroundColor]; e.remove(); return c", level)
                    self.assertGreaterEqual(contrast(*pair), 4.5, f"{scheme}: heat {level}")

    def test_the_page_reads_without_eyes(self):
        with Browser() as browser:
            browser.open(FOLDER / "study.html")
            levels = [int(tag[1]) for tag in browser.run("return [...document.querySelectorAll('h1,h2,h3,h4')].map(h => h.tagName)")]
            self.assertEqual(levels[0], 1)
            self.assertEqual(levels.count(1), 1)
            self.assertTrue(all(b - a <= 1 for a, b in zip(levels, levels[1:])), "no level of headings is left out")
            self.assertEqual(browser.run("return [...document.querySelectorAll('table')].filter(t => !t.caption || "
                                         "t.querySelectorAll('th:not([scope])').length).length"), 0)
            named = ("return [...document.querySelectorAll('[role=img]')].filter(i => !i.getAttribute('aria-labelledby').split(' ').concat("
                     "i.getAttribute('aria-describedby')).every(id => document.getElementById(id).textContent.trim().length > 5)).length")
            self.assertEqual(browser.run(named), 0)
            figures = count(browser, "figure")
            self.assertGreater(figures, 5)
            self.assertEqual(count(browser, "figure [role=img]"), figures)
            self.assertEqual(count(browser, "figure details table"), figures, "a table of values for each figure")
            self.assertEqual(browser.run("const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.length - new Set(ids).size"), 0)
            self.assertEqual(browser.run("return [...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.querySelector(a.getAttribute('href'))).length"), 0)
            self.assertEqual(browser.run("return document.documentElement.lang"), "en")
            self.assertEqual(count(browser, "button:empty, a:empty, summary:empty"), 0)
            browser.run("document.body.focus()")
            browser.keys("\ue004")
            self.assertEqual(browser.run("return document.activeElement.className"), "skip")

    def test_paper_gets_the_still_pictures(self):
        with Browser() as browser:
            browser.open(FOLDER / "study.html", scheme="dark")
            self.assertTrue(browser.print_to_pdf().startswith(b"%PDF"))
            browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
            shown = "return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility()).length"
            self.assertEqual(browser.run(shown, ".still.wide svg"), count(browser, "figure"))
            self.assertEqual(browser.run(shown, ".live svg, button, nav"), 0)
            self.assertGreater(luminance(browser.run("return getComputedStyle(document.documentElement).backgroundColor")), 0.9)
            sheets = browser.print_to_pdf().count(b"/Type /Page\n")
            self.assertLessEqual(sheets, 11, "sheets are not half blank")

    def test_captured_whole_each_table_of_trials_is_there(self):
        with Browser() as browser:
            browser.open(FOLDER / "nights.html")
            self.assertGreater(count(browser, ".trials"), 30, "far more than a screen")
            skipped = "return [...document.querySelectorAll('*')].filter(e => getComputedStyle(e).contentVisibility !== 'visible').length"
            self.assertEqual(browser.run(skipped), 0, "what a browser may skip is blank in a capture")
            picture = Image.open(io.BytesIO(browser.screenshot("#trials .trials:last-of-type"))).convert("RGB")
            colours = picture.getcolors(picture.width * picture.height)
            self.assertLess(max(colours)[0], 0.98 * picture.width * picture.height, "the last table has texts")

    def test_without_scripts_each_chart_is_seen(self):
        with Browser(scripts=False) as browser:
            for name, width in (("study", 1280), ("nights", 360), ("dell", 800)):
                for scheme in ("light", "dark"):
                    browser.open(FOLDER / f"{name}.html", width, scheme)
                    for figure in browser.run("return [...document.querySelectorAll('figure')].map(f => f.id)"):
                        with self.subTest(report=name, figure=figure, scheme=scheme):
                            picture = Image.open(io.BytesIO(browser.screenshot(f"#{figure} .picture"))).convert("RGB")
                            colours = picture.getcolors(picture.width * picture.height)
                            paper = max(colours)[1]
                            drawn = sum(n for n, colour in colours if colour != paper)
                            self.assertGreater(drawn, 0.005 * picture.width * picture.height)
                            self.assertGreater(len(colours), 20, "lines, marks and texts have several colours")
                    self.assertEqual(browser.run("return [...document.querySelectorAll('.still svg')].filter(e => e.checkVisibility()).length"),
                                     count(browser, "figure"))
                    self.assertEqual(browser.run("return document.documentElement.dataset.charts"), None, "no script ran")


class WithoutNode(unittest.TestCase):
    def test_the_report_says_so_and_live_charts_and_tables_stand_in(self):
        page = FOLDER / "no-node.html"
        done = subprocess.run([VIRTRAIN, "report", "--db", FOLDER / "dell.db", "-o", page], env={"PATH": "/nonexistent"},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("apt-get install nodejs", done.stderr)
        with Browser(scripts=False) as browser:
            browser.open(page)
            self.assertEqual(count(browser, ".still svg"), 0)
            self.assertEqual(count(browser, "figure > details[open] table"), count(browser, "figure"))
        with Browser() as browser:
            browser.open(page)
            self.assertEqual(count(browser, ".live svg"), count(browser, "figure"))


class Hostile(unittest.TestCase):
    def test_names_are_text(self):
        with Browser() as browser:
            browser.open(FOLDER / "hostile.html")
            self.assertEqual(browser.console(), [])
            self.assertIsNone(browser.run("return window.hacked ?? null"))
            self.assertEqual(browser.element(".scenario").get_attribute("textContent"), SHOWN)
            self.assertEqual(count(browser, "script"), 3)
            self.assertEqual(count(browser, "img, svg svg[onload], [onerror], [onload]"), 0)
            shown = browser.run("return document.querySelector('.cases bdi').textContent")
            self.assertEqual(shown, "weak-scaling/1" + SHOWN)

            browser.requests()  # those so far
            browser.open(FOLDER / "poisoned.html")
            self.assertEqual(browser.console(), [])
            with self.assertRaises(NoAlertPresentException):
                browser.driver.switch_to.alert  # noqa: B018
            self.assertIsNone(browser.run("return window.hacked ?? null"))
            self.assertEqual([r for r in browser.requests() if not r.startswith("data:")], [f"file://{FOLDER}/poisoned.html"])
            self.assertEqual(count(browser, "script"), 3)
            self.assertEqual(count(browser, "style"), 1)
            foreign = browser.run("return [...document.querySelectorAll('img, iframe, object, embed, form:not(.vega-bindings), [src], svg style, foreignObject')]"
                                  ".map(e => e.outerHTML.slice(0, 200))")
            self.assertEqual(foreign, [])
            active = browser.run("return [...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).filter(a => a.name.startsWith('on') || "
                                 "/^\\s*javascript:/i.test(a.value)).map(a => a.name + '=' + a.value)")
            self.assertEqual(active, [])
            self.assertEqual(browser.run("return [...document.querySelectorAll('a')].filter(a => !/^(#|data:text\\/csv;)/.test(a.getAttribute('href'))).length"), 0)
            words = browser.run("return document.body.textContent")
            self.assertGreater(words.count("window.hacked=1;alert(1)"), 20, "they are there, as text")
            for bad in ("\x1b", "\u202e", "\u2028"):
                self.assertNotIn(bad, browser.run("return document.querySelector('main').textContent"))

    def test_the_policy_runs_no_other_script(self):
        with Browser() as browser:
            browser.open(FOLDER / "study.html")
            browser.run("const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s);"
                        "const i = document.createElement('img'); i.src = 'https://example.org/x.png'; document.body.append(i);")
            self.assertIsNone(browser.run("return window.hacked ?? null"))
            refused = " ".join(browser.console())
            self.assertIn("script-src", refused)
            self.assertIn("img-src", refused)


if __name__ == "__main__":
    unittest.main()
