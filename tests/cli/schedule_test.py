#!/usr/bin/python3
"""Schedules and changes from outside, with a crontab of our own on PATH: nothing of this machine's is touched."""

import concurrent.futures
import contextlib
import email
import email.utils
import fcntl
import html
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import unittest

from command_line import BUILD, small_scenario, virtrain
from nights import records, write
from scheduled import MINE, Scheduled, without_systemd


class Webhooks(Scheduled):
    """Servers that are slow, and nights that try again: a test of its own."""

    @without_systemd
    def test_a_webhook_by_tls(self):
        key, certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=hook",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        received, answers = [], [503, 204, 302]

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                received.append((self.path, self.headers["Authorization"], body["event"], body["series"]))
                self.send_response(answers.pop(0) if answers else 204)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")  # or the answer ends with the connection, which curl 8 takes for an error
                self.end_headers()

            def log_message(self, *_):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        webhook = self.folder / "webhook"
        text = f"url https://127.0.0.1:{server.server_port}/s3cret\nheader Authorization: Bearer k3y\n"
        webhook.write_text(text)
        webhook.chmod(0o600)
        self.import_a_loss()
        self.virtrain("schedule", "add", self.scenario, "--at", "2:00", "--db", self.database, "--webhook-file", webhook)
        unverified = self.virtrain("schedule", "run", "nightly", status=1)
        self.assertEqual(received, [])
        self.assertIn("signed by an authority that this host does not know (a line ca /FILE", unverified.err)
        webhook.write_text(text + f"ca {certificate}\n")
        redirected = self.virtrain("schedule", "run", "nightly", status=1)
        self.assertIn("HTTP status 302, a redirect", redirected.err)
        self.virtrain("schedule", "run", "nightly", status=1)
        self.virtrain("schedule", "run", "nightly", status=1)
        paths, keys, events, series = zip(*received)
        self.assertEqual((set(paths), set(keys), set(events)), ({"/s3cret"}, {"Bearer k3y"}, {"confirmed"}))
        first, second = "nightly/one/vm/images_per_second", "nightly/one/vm/ratio"
        self.assertEqual(list(series), [first, first, second, second])  # busy, taken, redirected; taken the next night
        written = [path for path in self.folder.rglob("*") if path.is_file() and path != webhook]
        for path in written:
            self.assertNotIn(b"s3cret", path.read_bytes(), path)

    def test_a_webhook_that_never_answers_costs_three_time_outs_a_message_and_no_proxy_reads_what_goes_to_this_machine(self):
        silent, proxy = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        for server in (silent, proxy):
            self.addCleanup(server.close)
        webhook = self.folder / "webhook"
        webhook.write_text(f"url http://localhost:{silent.getsockname()[1]}/s3cret\ntimeout 1\n")
        webhook.chmod(0o600)
        self.environment["http_proxy"] = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        self.import_a_loss()
        self.add("--webhook-file", webhook)
        night = self.virtrain("schedule", "run", "nightly", status=1)  # the loss is what the night says, not its messenger
        self.assertIn("Timeout was reached", night.err)
        silent.settimeout(0)
        tries = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                tries += 1
        self.assertEqual(tries, 2 * 3)  # two messages: of images/s and of the ratio
        proxy.settimeout(0)
        self.assertRaises(BlockingIOError, proxy.accept)

    def test_a_message_that_was_taken_is_not_sent_again_for_the_end_of_its_answer(self):
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        posts = []

        def answer():  # more is promised than comes
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as caller:
                        posts.append(caller.recv(65536))
                        caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok")

        threading.Thread(target=answer, daemon=True).start()
        webhook = self.folder / "webhook"
        webhook.write_text(f"url http://127.0.0.1:{server.getsockname()[1]}/\n")
        webhook.chmod(0o600)
        self.import_a_loss()
        self.add("--webhook-file", webhook)
        for _ in range(2):
            self.assertNotIn("not taken", self.virtrain("schedule", "run", "nightly", status=1).err)
        self.assertEqual(len(posts), 2)  # of images/s and of the ratio, once

    def test_an_answer_without_an_end_is_not_read_for_long(self):
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        sent = []

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as caller, contextlib.suppress(OSError):
                        caller.recv(65536)
                        caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                        while True:
                            sent.append(caller.send(bytes(65536)))

        threading.Thread(target=answer, daemon=True).start()
        webhook = self.folder / "webhook"
        webhook.write_text(f"url http://127.0.0.1:{server.getsockname()[1]}/\ntimeout 5\n")
        webhook.chmod(0o600)
        self.import_a_loss()
        self.add("--webhook-file", webhook)
        self.assertNotIn("not taken", self.virtrain("schedule", "run", "nightly", status=1).err)
        self.assertGreater(len(sent), 0)
        self.assertLess(sum(sent), 50 << 20)  # what buffers of sockets take is all


class Nightly(Scheduled):
    @without_systemd
    def test_add_list_run_remove(self):
        self.table.write_text(MINE)
        add = ("schedule", "add", self.scenario, "--at", "2:00", "--days", "mon-fri", "--db", self.database)
        self.assertIn("7d", self.virtrain(*add, "--keep", "3d", status=2).err)
        self.virtrain(*add, "--keep", "9d")
        added = self.table.read_text()
        self.assertTrue(added.startswith(MINE + "0 2 * * mon,tue,wed,thu,fri "), added)
        listed = self.virtrain("schedule", "list", "--format", "json").json()
        self.assertEqual([(one["name"], one["last_run"]) for one in listed], [("nightly", None)])
        self.virtrain("schedule", "add", self.scenario, "--at", "3:00", "--db", self.database, status=2)
        self.assertIn("is a folder", self.virtrain(*add[:-1], self.folder, "--name", "other", status=2).err)
        self.assertEqual(self.table.read_text(), added)
        with open(self.table, encoding="utf-8") as table:
            self.assertTrue(table.read().endswith("# virtrain schedule nightly\n"))
        self.database.touch()  # as mktemp makes one
        ran = self.virtrain("schedule", "run", "nightly")
        self.assertIn("0 losses are open", ran.out)
        listed = self.virtrain("schedule", "list", "--format", "json").json()
        self.assertEqual(listed[0]["last_result"], "done")
        self.assertNotIn("thinned", ran.out)
        self.the_next_nights_thin_this_one()
        self.virtrain("schedule", "remove", "nightly")
        self.assertEqual(self.table.read_text(), MINE)
        self.assertEqual(self.virtrain("schedule", "list", "--format", "json").json(), [])
        self.assertIn("experiment", self.virtrain("list", "--db", self.database).out)

    def test_a_schedule_without_a_timer_is_started_by_other_means(self):
        add = ("schedule", "add", self.scenario, "--at", "2:00", "--db", self.database)
        if not os.path.isdir("/run/systemd/system"):
            without_cron = self.folder / "programs"  # what is on PATH, but for crontab
            without_cron.mkdir()
            for folder in os.environ["PATH"].split(":"):
                for program in os.listdir(folder) if os.path.isdir(folder) else []:
                    link = without_cron / program
                    if program != "crontab" and not link.is_symlink():
                        link.symlink_to(os.path.join(folder, program))
            refused = virtrain(*add, env={**self.environment, "PATH": str(without_cron)})
            self.assertEqual(refused.status, 4, refused)
            self.assertIn("add the schedule with --no-timer", refused.err)
        self.table.write_text(MINE)
        self.assertIn("virtrain schedule run nightly", self.virtrain(*add, "--no-timer").out)
        self.assertEqual(self.table.read_text(), MINE)
        listed = self.virtrain("schedule", "list", "--format", "json").json()
        self.assertEqual([(one["name"], one["next_run"]) for one in listed], [("nightly", None)])
        self.assertIn("no timer", self.virtrain("schedule", "list").out)
        ran = self.virtrain("schedule", "run", "nightly").out
        self.assertIn("the first change can be detected after 15 runs", ran)
        self.virtrain("schedule", "remove", "nightly")
        self.assertEqual(self.table.read_text(), MINE)

    def test_what_others_could_change_is_refused(self):
        hook = self.folder / "hook.sh"
        hook.write_text("true\n")
        webhook = self.folder / "webhook"
        webhook.write_text("url https://127.0.0.1/\n")
        webhook.chmod(0o600)
        plain = self.folder / "plain"
        plain.write_text("url http://example.com/s3cret\n")
        plain.chmod(0o600)

        def refused(*options, status=4):
            result = self.virtrain("schedule", "add", self.scenario, "--at", "2:00", "--db", self.database, *options, status=status)
            self.assertNotIn("s3cret", result.err)
            self.assertEqual(self.virtrain("schedule", "list", "--format", "json").json(), [])
            return result.err

        for path, options in ((self.scenario, ()), (hook, ("--notify", f"sh {hook}")), (hook, ("--label-command", f"sh {hook}")),
                              (webhook, ("--webhook-file", webhook)), (self.folder, ())):
            with self.subTest(path=path):
                mode = path.stat().st_mode & 0o777
                path.chmod(mode | 0o020)
                self.assertIn(f"chmod go-w {path}", refused(*options))
                path.chmod(mode)
                if os.geteuid() == 0:
                    os.chown(path, 12345, -1)
                    self.assertIn("belongs to user 12345", refused(*options))
                    os.chown(path, 0, -1)
        if os.geteuid() == 0:
            link = self.folder / "link"
            link.symlink_to(hook)
            os.lchown(link, 12345, -1)
            self.assertIn("is a link that belongs to user 12345", refused("--notify", f"sh {link}"))
        for option in ("--notify", "--label-command"):
            self.assertRegex(refused(option, "./hook.sh", status=2), f"read {option}: .* is relative")
        self.assertIn(f"{plain}:1:1: the URL has to begin with https://", refused("--webhook-file", plain, status=3))
        webhook.write_text("url https://127.0.0.1/\ntimeout 0\n")
        self.assertIn(f"{webhook}:2:1: timeout has to be 1 to 600 seconds", refused("--webhook-file", webhook, status=3))
        webhook.chmod(0o644)
        self.assertIn("other users can read the secret", refused("--webhook-file", webhook))

    def the_next_nights_thin_this_one(self):
        def last_night_began(when):
            with contextlib.closing(sqlite3.connect(self.database)) as database, database:
                database.execute(f"UPDATE experiment SET started_at = {when} WHERE number = (SELECT max(number) FROM experiment)")

        last_night_began("'2020-01-01T02:00:00.000Z'")
        jumped = self.virtrain("schedule", "run", "nightly")  # years later, as if the clock had jumped
        self.assertNotIn("thinned", jumped.out)
        (tonight,), = self.rows("SELECT started_at FROM experiment ORDER BY number DESC LIMIT 1")
        for began in ("2020-01-01T02:00:00.000Z", tonight):
            self.assertIn(began, jumped.err)
        last_night_began("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-20 days')")
        (before,), = self.rows("SELECT count(*) FROM sample")
        self.assertGreater(before, 0)
        words = self.virtrain("schedule", "run", "nightly").out
        self.assertIn(f"runs older than 9 days: 2 thinned, {before} samples and ", words)
        self.assertNotEqual(self.rows("SELECT count(*) FROM sample"), [(0,)])
        self.assertEqual(self.rows("SELECT count(*) FROM experiment"), [(3,)])

    def test_a_loss_from_its_first_night_to_its_acknowledgement(self):
        self.import_a_loss()
        changes = self.changes(status=1)
        self.assertEqual([one["series"] for one in changes], ["nightly/one/vm/images_per_second", "nightly/one/vm/ratio"])
        for one in changes:
            self.assertEqual((one["state"], one["direction"], one["first_experiment"]), ("open", "worse", "n15"))
            self.assertEqual(one["suspects"][0]["fact"], "label")
            self.assertEqual(one["suspects"][0]["after"], "mpi-4.1.7")
            self.virtrain("ack", one["id"], "accepted", "--db", self.database)
        self.assertEqual({one["state"] for one in self.changes()}, {"acknowledged"})

    @without_systemd
    def test_a_night_that_is_stopped_while_it_tells_keeps_its_messages(self):
        told = self.folder / "told"
        self.import_a_loss()
        self.add("--notify", f"echo begun >> {told}; exec sleep 100")
        night = self.start_night("nightly")
        ends = time.monotonic() + 60
        while not told.exists() and time.monotonic() < ends:
            time.sleep(0.1)
        night.send_signal(signal.SIGTERM)
        self.assertEqual(night.wait(timeout=20), 143)
        self.assertEqual(told.read_text(), "begun\n", "the second message was not begun")
        self.assertEqual(self.last_result(), "stopped")
        self.virtrain("schedule", "remove", "nightly")
        self.add("--notify", f"cat > /dev/null; echo taken >> {told}")
        self.virtrain("schedule", "run", "nightly", status=1)
        self.assertEqual(told.read_text(), "begun\ntaken\ntaken\n")

    @without_systemd
    def test_what_was_told_or_acknowledged_is_not_told_again(self):
        told = self.folder / "told"
        notify = ("--notify", f"cat >> {told}")
        self.import_a_loss()
        self.add(*notify)
        self.virtrain("schedule", "run", "nightly", status=1)
        first = told.read_text()
        self.assertEqual(len(first.splitlines()), 2)
        self.virtrain("schedule", "remove", "nightly")  # as one edits a schedule
        self.add(*notify)
        self.virtrain("schedule", "run", "nightly", status=1)
        for change in self.changes(status=1):
            self.virtrain("ack", change["id"], "accepted", "--db", self.database)
        self.virtrain("schedule", "run", "nightly")
        self.assertEqual(told.read_text(), first)

    @without_systemd
    def test_a_refused_night_is_listed_as_refused(self):
        self.add()
        self.scenario.chmod(0o664)
        self.assertIn("chmod go-w", self.virtrain("schedule", "run", "nightly", status=4).err)
        self.assertEqual(self.last_result(), "could not run")
        self.scenario.chmod(0o644)
        self.virtrain("schedule", "run", "nightly")
        self.assertEqual(self.last_result(), "done")
        self.scenario.unlink()
        self.virtrain("schedule", "run", "nightly", status=4)
        self.assertEqual(self.last_result(), "could not run")

    @without_systemd
    def test_a_command_gives_each_night_its_label(self):
        version = self.folder / "version"
        version.write_text("mpi-4.1.7\nof last week\n")
        self.add("--label-command", f"cat {version}")
        self.virtrain("schedule", "run", "nightly")
        version.unlink()
        self.assertIn("this run has none", self.virtrain("schedule", "run", "nightly").err)
        labels = [label or "" for label, in self.rows("SELECT label FROM experiment ORDER BY number")]
        self.assertEqual(labels, ["mpi-4.1.7", ""])

    @without_systemd
    def test_cron_has_nothing_to_mail_after_a_good_night(self):
        self.add()
        self.assertIn(" schedule run nightly --quiet # ", self.table.read_text())
        _, line = self.table.read_text().split("* * * ")  # as cron runs it: with next to nothing in the environment
        good = subprocess.run(["sh", "-c", line], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
        self.assertEqual((good.returncode, good.stdout, good.stderr), (0, "", ""))
        self.import_a_loss()
        told = self.virtrain("schedule", "run", "nightly", "--quiet", status=1).out.splitlines()
        self.assertEqual(len(told), 2)
        for line in told:
            self.assertRegex(line, r"^nightly/one/vm/.* worse \(-\d+\.\d %\) since n15; suspect: label")
        self.assertEqual(self.virtrain("schedule", "run", "nightly", "--quiet", status=1).out, "")

    @without_systemd
    def test_each_night_publishes_what_others_look_at(self):
        add = ("schedule", "add", self.scenario, "--at", "2:00", "--db", self.database)
        self.assertIn("NAME.prom", self.virtrain(*add, "--textfile", self.folder / "nights.txt", status=2).err)
        self.assertIn("is not there", self.virtrain(*add, "--site", self.folder / "no" / "site", status=2).err)
        others = self.folder / "others"
        others.mkdir()
        others.chmod(0o777)
        self.assertIn(f"chmod go-w {others}", self.virtrain(*add, "--textfile", others / "nights.prom", status=4).err)
        page, site = self.folder / "nights.prom", self.folder / "site"
        self.import_a_loss()
        self.add("--textfile", page, "--site", site)
        self.virtrain("schedule", "run", "nightly", status=1)
        self.assertRegex(page.read_text(), r'(?m)^virtrain_series_open_losses{.*figure="ratio".*} 1$')
        self.assertIn("nightly/one/vm/ratio", (site / "index.html").read_text())
        page.unlink()
        shutil.rmtree(site)
        site.write_text("mine")
        again = self.virtrain("schedule", "run", "nightly", status=1)
        self.assertIn("could not be published", again.err)
        self.assertEqual((site.read_text(), page.exists()), ("mine", True))
        site.unlink()
        site.symlink_to("x" * 300)  # no folder can be made there, nor can anybody look whether there is one
        self.assertIn("cannot make the folder", self.virtrain("schedule", "run", "nightly", status=1).err)

    @without_systemd
    def test_two_schedules_that_are_added_at_once_both_reach_the_crontab(self):
        self.table.write_text(MINE)
        (self.folder / "table.slow").touch()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: self.add("--name", name), ["first", "second"]))
        lines = self.table.read_text()[len(MINE):].splitlines()
        self.assertEqual(sorted(line.split(" ")[-1] for line in lines), ["first", "second"])
        self.assertTrue(self.table.read_text().startswith(MINE))

    @without_systemd
    def test_each_change_is_told_once(self):
        received = []

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(500 if len(received) == 1 else 204)  # the first is lost, and sent again
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        hook = self.folder / "hook.py"
        hook.write_text("import sys, urllib.request\n"
                        f"urllib.request.urlopen('http://127.0.0.1:{server.server_port}/', data=sys.stdin.buffer.read(), timeout=10)\n")
        sendmail = self.folder / "sendmail"
        sendmail.write_text(f"#!/bin/sh\ntest \"$*\" = '-t -i' && cat >> {self.folder}/mails\n")
        sendmail.chmod(0o755)
        self.import_a_loss()
        add = ("schedule", "add", self.scenario, "--at", "2:00", "--db", self.database, "--notify", f"python3 {hook} 2>/dev/null")
        self.assertIn("not a mail address", self.virtrain(*add, "--mail", "a@b\nBcc: c@d", status=2).err)
        self.virtrain(*add, "--mail", "team@example.com")
        for _ in range(3):
            self.virtrain("schedule", "run", "nightly", status=1)
        lost, *told = [(one["event"], one["series"]) for one in received]
        both = [("confirmed", "nightly/one/vm/images_per_second"), ("confirmed", "nightly/one/vm/ratio")]
        self.assertEqual(lost, both[0])
        self.assertEqual(sorted(told), both)
        self.assertIn("suspect: label (mpi-4.1.4 → mpi-4.1.7)", received[0]["text"])
        self.import_nights("mended.jsonl", range(20, 23), "mpi-4.1.8", 950)
        self.virtrain("schedule", "run", "nightly")
        self.assertEqual([one["event"] for one in received[3:]], ["mended", "mended"])
        mails = [email.message_from_string(text) for text in re.split(r"(?m)^(?=To: )", (self.folder / "mails").read_text())[1:]]
        mails = [mail for mail in mails if mail["Subject"]]
        self.assertEqual([mail["To"] for mail in mails], ["team@example.com"] * 4)
        self.assertEqual([re.search(r" change \w+ (\w+), ", mail["Subject"])[1] for mail in mails], ["confirmed", "confirmed", "mended", "mended"])
        self.assertEqual({mail["Importance"] for mail in mails if mail["Subject"].startswith("[critical] ")}, {"high"})
        self.assertIn("suspect: label (mpi-4.1.4 → mpi-4.1.7)", mails[0].get_payload())
        self.assertIn(f"why\" --db {self.database}", mails[0].get_payload())
        self.assertIsNotNone(email.utils.parsedate_to_datetime(mails[0]["Date"]))

    @without_systemd
    def test_each_schedule_writes_to_places_of_its_own(self):
        page, site = self.folder / "nights.prom", self.folder / "site"
        self.import_a_loss()
        write(self.folder / "other.jsonl", records(range(18), 950, scenario="other"))
        self.virtrain("import", self.folder / "other.jsonl", "--db", self.database)
        self.add("--textfile", page, "--site", site)
        (link := self.folder / "link").symlink_to(self.folder)
        add = ("schedule", "add", self.scenario, "--name", "second", "--at", "2:00", "--db", self.database)
        for options in (("--textfile", page), ("--textfile", link / "nights.prom"), ("--site", site)):
            self.assertIn("schedule nightly writes to", self.virtrain(*add, *options, status=2).err)
        self.virtrain("schedule", "run", "nightly", status=1)
        self.assertEqual(set(re.findall(r'scenario="(\w+)"', page.read_text())), {"nightly"})  # others' nights have their own file

    @without_systemd
    def test_a_damaged_file_is_named_and_bars_no_other_schedule(self):
        self.table.write_text(MINE)
        self.add()
        self.add("--name", "second")
        self.add("--name", "third")
        book = {path.stem: path for path in self.folder.rglob("schedules/*.json")}
        for text in ("", book["second"].read_text()[:40], "[]"):
            book["second"].write_text(text)
            listed = self.virtrain("schedule", "list", "--format", "csv")
            self.assertIn(str(book["second"]), listed.err)
            self.assertEqual([line.split(",")[0] for line in listed.out.splitlines()[1:]], ["nightly", "second", "third"])  # as prerm reads it
            refused = self.virtrain("schedule", "run", "second", status=3).err
            self.assertIn(str(book["second"]), refused)
            self.assertIn("virtrain schedule remove second", refused)
        state = self.folder / "state/virtrain/schedules/third.json"
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text('{"sta')
        self.assertIn(str(state), self.virtrain("schedule", "list").err)
        self.virtrain("schedule", "run", "third")
        self.assertEqual(self.last_result("third"), "done")
        for name in book:
            self.virtrain("schedule", "remove", name)
        self.assertEqual(self.table.read_text(), MINE)
        self.virtrain("schedule", "remove", "second", status=3)

    @without_systemd
    def test_a_schedule_whose_line_may_stay_is_not_forgotten(self):
        self.add()
        environment = {**self.environment, "PATH": str(self.folder / "none")}
        refused = virtrain("schedule", "remove", "nightly", env=environment)
        self.assertEqual((refused.status, self.last_result()), (4, None))
        self.assertIn("crontab is not on PATH", refused.err)
        self.assertNotIn("install cron", refused.err)

    @without_systemd
    def test_a_database_that_was_moved_is_missed(self):
        self.add()
        self.assertEqual(self.virtrain("schedule", "run", "nightly", "--quiet").err, "")
        self.database.rename(self.folder / "moved.db")
        self.scenario.chmod(0o664)
        self.assertIn("not there any more", self.virtrain("schedule", "run", "nightly", "--quiet", status=4).err)
        self.scenario.chmod(0o644)
        self.assertIn(str(self.database), self.virtrain("schedule", "run", "nightly", "--quiet").err)
        self.assertEqual(self.virtrain("schedule", "run", "nightly", "--quiet").err, "")

    def test_the_command_that_accepts_a_change_works_as_printed(self):
        self.database = self.folder / "my nights.db"
        self.import_a_loss()
        printed = self.virtrain("changes", "--db", self.database).out
        self.assertIn(f"virtrain ack CHANGE \"why\" --db '{self.database}'", printed)
        junit = self.virtrain("changes", "--db", self.database, "--format", "junit").out
        command = html.unescape(re.search("accept it: virtrain (.*)", junit)[1])
        self.virtrain(*shlex.split(command))
        self.environment["XDG_DATA_HOME"] = str(self.folder)
        (self.folder / "virtrain").mkdir()
        shutil.copy(self.database, self.folder / "virtrain/results.db")
        self.assertNotIn("--db", self.virtrain("changes").out)

    @without_systemd
    def test_a_schedule_that_runs_is_not_removed(self):
        self.add()
        lock = self.folder / "state/virtrain/schedules/nightly.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with open(lock, "w", encoding="utf-8") as night:
            fcntl.flock(night, fcntl.LOCK_EX)
            self.assertIn("still runs", self.virtrain("schedule", "remove", "nightly", status=75).err)
            self.assertIn("schedule nightly", self.table.read_text())
        self.virtrain("schedule", "remove", "nightly")
        self.assertFalse(lock.exists())

    @without_systemd
    def test_the_next_run_is_in_the_zone_of_the_timer(self):
        self.add()
        here = [self.virtrain("schedule", "list", "--format", form).out for form in ("table", "json")]
        self.assertRegex(json.loads(here[1])[0]["next_run"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z$")
        self.environment["TZ"] = "America/New_York"
        self.assertEqual([self.virtrain("schedule", "list", "--format", form).out for form in ("table", "json")], here)


class OnThisHost(Scheduled):
    """What the journal of leases and the checks of a real host decide."""

    program = BUILD / "virtrain"

    @without_systemd
    def test_two_schedules_never_overlap_and_what_a_killed_night_left_is_cleaned(self):
        scenario, database = self.folder / "long.yaml", self.folder / "long.db"
        workload = {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": 100000}
        guest = {"vcpus": len(os.sched_getaffinity(0)), "memory": "768MiB"}
        scenario.write_text(small_scenario(name="long", workload=workload, guest=guest))
        self.virtrain("schedule", "add", scenario, "--at", "2:00", "--db", database)
        self.add("--patience", "0s")
        night = self.start_night("long")
        self.wait_until_training(database)
        self.assertIn("not tonight", self.virtrain("schedule", "run", "nightly", status=75).out)
        self.kill_night(night)
        self.assertEqual(self.last_result("long"), "killed")
        scenario.write_text(small_scenario(name="long"))
        self.assertIn("interrupted: experiment", self.virtrain("schedule", "run", "long").out)
        self.assertEqual(self.rows("SELECT status FROM experiment ORDER BY number", database), [("interrupted",), ("finished",)])

    def test_what_cannot_run_is_refused_before_anything_is_written(self):
        self.table.write_text(MINE)
        bad = self.folder / "bad.yaml"
        bad.write_text(small_scenario(name="bad", pears=1))
        unable = self.folder / "unable.yaml"
        unable.write_text(small_scenario(name="unable", guest={"vcpus": 1, "memory": "4096GiB"}))
        of_bisect = self.folder / "of-bisect.yaml"
        of_bisect.write_text(small_scenario(name="nightly.bisect"))
        without_image = self.folder / "without-image.yaml"
        guest = {"vcpus": 1, "memory": "768MiB", "image": str(self.folder / "none.qcow2")}
        without_image.write_text(small_scenario(name="without-image", arms=["vm"], guest=guest))
        for arguments, status, words in [
                ((bad, "--at", "2:00"), 3, "pears"),
                ((unable, "--at", "2:00"), 4, "one node of 4TiB"),
                ((without_image, "--at", "2:00"), 4, f"look at the guest image {guest['image']}: there is no such file"),
                ((self.scenario, "--at", "25:00"), 2, "00:00 … 23:59"),
                ((of_bisect, "--at", "2:00"), 2, "give it another name"),
                ((self.scenario, "--at", "2:00", "--days", "1-5"), 2, "mon-fri"),
                ((self.scenario, "--at", "2:00", "--name", "../x"), 2, "a-z"),
                ((self.scenario, "--at", "2:00", "--patience", "long"), 2, "0s … 23h")]:
            with self.subTest(arguments=arguments):
                self.assertIn(words, self.virtrain("schedule", "add", *arguments, "--db", self.database, status=status).err)
        self.assertEqual(self.table.read_text(), MINE)
        self.assertFalse(self.database.exists())
        self.assertEqual(self.virtrain("schedule", "list", "--format", "json").json(), [])


unittest.main()
