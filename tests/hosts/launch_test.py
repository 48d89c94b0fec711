#!/usr/bin/python3
"""virtrain-host started over ssh on three hosts, and what users read where one of them cannot be reached or used."""

import contextlib
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

import rig as rigs

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
RIG = None
TRIAL_FAILED = 6


def setUpModule():
    global RIG
    RIG = unittest.enterModuleContext(rigs.Rig(3))


def virtrain(*arguments):
    environment = {**os.environ, "VIRTRAIN_DB": str(RIG.folder / "results.db")}
    return RIG.run(BUILD / "virtrain", *arguments, env=environment, timeout=200)


def hello(digest):
    """The frame with which a virtrain-host of another build greets."""
    text = json.dumps({"type": "hello", "version": "0.0.1", "digest": digest}).encode()
    return struct.pack("<IHHII", 0x4D525456, 1, 0, len(text), 0) + text


class Doctor(unittest.TestCase):
    def test_a_table_for_each_host(self):
        done = virtrain("doctor", "--hosts", "gpu-c,gpu-a,gpu-b")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(re.findall(r"^gpu-.$", done.stdout, re.M), ["gpu-a", "gpu-b", "gpu-c"])
        for table in re.split(r"^gpu-.$", done.stdout, flags=re.M)[1:]:
            self.assertRegex(table, r"(?m)^CPU scenarios run {4}")
            self.assertNotIn("Network of hosts", table)

    def test_json_says_which_host(self):
        done = virtrain("doctor", "--hosts", "gpu-a,gpu-b", "--json")
        findings = json.loads(done.stdout)
        by_host = {name: [f["id"] for f in findings if f["host"] == name] for name in ("gpu-a", "gpu-b")}
        self.assertEqual(sum(map(len, by_host.values())), len(findings))
        self.assertEqual(by_host["gpu-a"], by_host["gpu-b"])
        self.assertIn("HOST-1", by_host["gpu-a"])
        devices = json.loads(virtrain("doctor", "--hosts", "gpu-a", "--devices", "--json").stdout)
        self.assertEqual({device["host"] for device in devices}, {"gpu-a"} if devices else set())
        self.assertEqual(virtrain("doctor", "--hosts", "gpu-a", "--format", "csv").stdout.split(",")[0], "host")

    def test_the_network_between_hosts(self):
        for file, words in [("bridge.yaml", "yes: bridge br-data: MTU 1500 for nodes"), ("vxlan.yaml", "yes: vxlan data0 at 10.91.0.")]:
            done = virtrain("doctor", "--hosts", RIG.folder / file)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout.count(f"Network of hosts     {words}"), 3, done.stdout)
        file = RIG.write_hosts("absent.yaml", ["gpu-a", "gpu-b"], {"kind": "bridge", "name": "br-none"})
        done = virtrain("doctor", "--hosts", file, "--json")
        self.assertEqual(done.returncode, 4)
        failed = [f for f in json.loads(done.stdout) if f["id"] == "HOST-1"]
        self.assertEqual([(f["host"], f["status"]) for f in failed], [("gpu-a", "failed"), ("gpu-b", "failed")])
        self.assertIn("br-none", failed[0]["found"])

    def test_a_scenario_with_hosts(self):
        scenario = RIG.folder / "s.yaml"
        scenario.write_text(json.dumps({"name": "s", "hosts": "bridge.yaml", "workload": {}, "guest": {"vcpus": 1, "memory": "768MiB"},
                                        "cases": [{"name": "one", "tenants": [{"nodes": 1}]}]}))
        done = virtrain("doctor", scenario)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"s\.yaml: these hosts can run it, in mode system\n$")
        self.assertEqual(re.findall(r"^gpu-.$", done.stdout, re.M), RIG.names)
        self.assertEqual(re.findall(r"^gpu-.$", virtrain("doctor", scenario, "--hosts", "gpu-b").stdout, re.M), ["gpu-b"])

    def test_a_user_who_may_start_it_with_sudo(self):
        program = str(BUILD / "virtrain-host")
        file = RIG.write_hosts("sudo.yaml", ["worker@gpu-a"], launcher=["ssh", "-T", "{host}", "sudo", "-n", "virtrain-host"])
        done = virtrain("doctor", "--hosts", file)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        file = RIG.write_hosts("refused.yaml", ["worker@gpu-a"], launcher=["ssh", "-T", "{host}", "sudo", "-n", "env", program])
        done = virtrain("doctor", "--hosts", file)
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, r"worker@gpu-a: sudo: a password is required \(exit status 1\); tried: ssh -T worker@gpu-a sudo")


class NotThere(unittest.TestCase):
    """Hosts on which virtrain-host cannot be had, each with its reason, all at once."""

    def assert_refused(self, done, *words):
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        for one in words:
            self.assertRegex(done.stderr, one)

    def test_unreachable_hosts(self):
        RIG.host("gpu-b").stop_sshd()
        self.addCleanup(RIG.host("gpu-b").start_sshd)
        hosts = "gpu-a,gpu-b,gpu-x"
        for verb in (["doctor"], ["clean", "--verify"]):
            done = virtrain(*verb, "--hosts", hosts)
            self.assert_refused(
                done, r"gpu-b: ssh: connect to host gpu-b port 22: Connection refused \(exit status 255\); tried: ssh -T .* gpu-b /",
                r"gpu-x: ssh: Could not resolve hostname gpu-x", "--skip-unreachable goes on with the others")
            self.assertNotRegex(done.stderr, "(?m)^gpu-a: ")
            done = virtrain(*verb, "--hosts", hosts, "--skip-unreachable")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(re.findall(r"^gpu-.$", done.stdout, re.M), ["gpu-a"])
            self.assertRegex(done.stderr, "warning: left out, for it does not answer: gpu-b: ssh: ")
        self.assert_refused(virtrain("doctor", "--hosts", "gpu-b,gpu-x", "--skip-unreachable"), "gpu-b: ssh", "gpu-x: ssh")

    def test_a_host_that_is_silent(self):
        RIG.host("gpu-b").silence()
        self.addCleanup(RIG.host("gpu-b").restore)
        began = time.monotonic()
        self.assert_refused(virtrain("doctor", "--hosts", "gpu-b"), "gpu-b: ssh: connect to host gpu-b port 22: ")
        self.assertLess(time.monotonic() - began, 25)

    def test_an_unknown_key_and_a_refused_one(self):
        known = RIG.folder / "known_hosts"
        kept = known.read_text()
        self.addCleanup(known.write_text, kept)
        known.write_text("")
        self.assert_refused(virtrain("doctor", "--hosts", "gpu-a"), "gpu-a: .*Host key verification failed")
        known.write_text(kept)
        self.assert_refused(virtrain("doctor", "--hosts", "nobody@gpu-a"), r"nobody@gpu-a: .*Permission denied \(publickey")

    def test_another_build_and_none(self):
        """The program's path is in /run, which each host has of its own."""
        (RIG.folder / "hello").write_bytes(hello("0123456789abcdef"))
        RIG.host("gpu-a").sh("ln", "-s", BUILD / "virtrain-host", "/run/virtrain-host")
        RIG.host("gpu-b").sh("sh", "-c", f"printf '#!/bin/sh\\ncat {RIG.folder}/hello; cat >&2\\n' > /run/virtrain-host; chmod +x /run/virtrain-host")
        for name in ("gpu-a", "gpu-b"):
            self.addCleanup(RIG.host(name).sh, "rm", "/run/virtrain-host")
        file = RIG.write_hosts("builds.yaml", RIG.names, {"kind": "bridge", "name": "br-data"}, ["ssh", "-T", "{host}", "/run/virtrain-host"])
        done = virtrain("doctor", "--hosts", file)
        copies = rf"copy this build there: ssh {{0}} mkdir -p /run && rsync -a {BUILD}/virtrain-\* {{0}}:/run/"
        self.assert_refused(
            done, r"gpu-b: it is of another build: version 0\.0\.1 \(0123456789abcdef\), this side is .*" + copies.format("gpu-b"),
            r"gpu-c: .*/run/virtrain-host: No such file or directory \(exit status 127\); tried: .*" + copies.format("gpu-c"))
        self.assertNotRegex(done.stderr, "(?m)^gpu-a: ")
        self.assert_refused(virtrain("doctor", "--hosts", file, "--skip-unreachable"), "gpu-b: it is of another build")

    def test_a_shell_that_greets(self):
        file = RIG.write_hosts("greets.yaml", ["gpu-a"], launcher=["ssh", "-T", "{host}", "echo Welcome;", "exec", "virtrain-host"])
        self.assert_refused(virtrain("doctor", "--hosts", file), "gpu-a: read frame: .*does a start-up file of the shell there print something")

    def test_wrong_files_and_names(self):
        for hosts, status, words in [("gpu-a,gpu-a", 2, "'gpu-a' is there twice"), ("-oProxyCommand=x", 2, "is neither a file nor"),
                                     ("./none.yaml", 3, "none.yaml: no such file")]:
            done = virtrain("doctor", f"--hosts={hosts}")
            self.assertEqual((done.returncode, done.stdout), (status, ""))
            self.assertIn(words, done.stderr)


class Clean(unittest.TestCase):
    def test_what_a_killed_run_left_on_one_host(self):
        host = RIG.host("gpu-b")
        scenario = RIG.folder / "killed.yaml"
        scenario.write_text(json.dumps({
            "name": "killed", "workload": {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": 100_000},
            "guest": {"vcpus": 1, "memory": "768MiB"}, "cases": [{"name": "one", "tenants": [{"nodes": 1}]}],
            "arms": ["bare_metal"], "pairs": 1}))
        environment = {**os.environ, "VIRTRAIN_DB": str(RIG.folder / "results.db")}
        run = subprocess.Popen(host.words(BUILD / "virtrain", "-v", "run", scenario), env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        experiment = None
        for line in run.stderr:
            if re.fullmatch(r"\d{8}t\d{6}-[0-9a-f]{6}\n", line):
                experiment = line.strip()
            if "stage=run" in line:
                break
        for program in ("virtrain-host", "virtrain"):
            for pid in host.pids_of(program):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        run.stderr.close()
        run.wait(20)
        done = virtrain("clean", "--hosts", "gpu-a,gpu-b", "--verify")
        self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"^gpu-a\nnothing is left over\n\ngpu-b\n(.*\n)*left over: .*{experiment}")
        done = virtrain("clean", "--hosts", "gpu-a,gpu-b")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"\n\ngpu-b\n(.*\n)*interrupted: experiment {experiment}")
        done = virtrain("clean", "--hosts", "gpu-a,gpu-b", "--verify")
        self.assertEqual((done.returncode, done.stdout), (0, "gpu-a\nnothing is left over\n\ngpu-b\nnothing is left over\n"))


class Run(unittest.TestCase):
    """A tenant with a slice on each of two hosts, and what a user sees and finds left where one of them goes meanwhile."""

    def start(self, steps, *options, others=()):
        scenario = RIG.folder / "run.yaml"
        scenario.write_text(json.dumps({
            "name": "over-hosts", "hosts": "two.yaml", "guest": {"vcpus": 1, "memory": "768MiB"}, "arms": ["bare_metal"], "pairs": 1,
            "workload": {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": steps},
            "cases": [{"name": "two", "tenants": [{"nodes": 2, "per_host": 1}]}]}))
        RIG.write_hosts("two.yaml", ["gpu-a", "gpu-b", *others], {"kind": "vxlan", "name": "data0"})
        environment = {**os.environ, "VIRTRAIN_DB": str(RIG.folder / "results.db")}
        run = subprocess.Popen(RIG.coordinator.words(BUILD / "virtrain", "-v", "run", scenario, *options), env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.kill)
        return run

    def begun(self):
        """A run that trains."""
        run = self.start(100_000)
        log = []
        for line in run.stderr:
            log.append(line)
            if "stage=run" in line:
                time.sleep(2)
                return run
        self.fail("".join(log))

    def assert_ended(self, run, *words):
        began = time.monotonic()
        log = run.stderr.read()
        self.assertEqual(run.wait(10), TRIAL_FAILED, log)
        self.assertLess(time.monotonic() - began, 40)
        for one in words:
            self.assertRegex(log, one)
        RIG.host("gpu-b").restore()
        rigs.wait_for(lambda: virtrain("clean", "--hosts", "gpu-a,gpu-b", "--verify").returncode == 0, "nothing left", 30)

    def test_it_finishes_and_leaves_nothing(self):
        run = self.start(3)
        log = run.stderr.read()
        self.assertEqual(run.wait(60), 0, log)
        self.assertIn("1 trial finished", log + run.stdout.read())
        self.assertEqual(virtrain("clean", "--hosts", "gpu-a,gpu-b", "--verify").returncode, 0)

    def test_a_host_that_is_not_there_is_refused_or_left_out(self):
        run = self.start(3, others=["gpu-x"])
        log = run.stderr.read()
        self.assertEqual(run.wait(60), 4, log)
        self.assertRegex(log, "(?m)^virtrain: start virtrain-host on 3 hosts: gpu-x: ssh: Could not resolve hostname gpu-x")
        run = self.start(3, "--skip-unreachable", others=["gpu-x"])
        log = run.stderr.read()
        self.assertEqual(run.wait(60), 0, log)
        self.assertIn("warning: left out, for it does not answer: gpu-x: ssh: ", log)
        self.assertEqual(virtrain("clean", "--hosts", "gpu-a,gpu-b", "--verify").returncode, 0)

    def test_a_link_that_is_cut(self):
        run = self.begun()
        RIG.host("gpu-b").silence()
        self.addCleanup(RIG.host("gpu-b").restore)
        self.assert_ended(run, r"(?<!gpu-b: )gpu-b: call \w+ of the host: virtrain-host is gone: it was silent for")

    def test_an_ssh_that_is_killed(self):
        run = self.begun()
        (pid,) = [pid for pid in RIG.coordinator.pids_of("ssh") if "gpu-b" in rigs.command_of(pid)]
        os.kill(pid, signal.SIGKILL)
        self.assert_ended(run, r"(?<!gpu-b: )gpu-b: call \w+ of the host: virtrain-host is gone: ")

    def test_a_virtrain_host_that_is_killed(self):
        run = self.begun()
        (pid,) = RIG.host("gpu-b").pids_of("virtrain-host")
        os.kill(pid, signal.SIGKILL)
        log = run.stderr.read()
        self.assertEqual(run.wait(60), TRIAL_FAILED, log)
        self.assertRegex(log, r"(?<!gpu-b: )gpu-b: call \w+ of the host: virtrain-host is gone: ")
        self.assertEqual(virtrain("clean", "--hosts", "gpu-a,gpu-b").returncode, 0)
        self.assertEqual(virtrain("clean", "--hosts", "gpu-a,gpu-b", "--verify").returncode, 0)

    def test_ctrl_c_is_for_virtrain_alone(self):
        run = self.begun()
        os.kill(RIG.coordinator.pids_of("virtrain")[0], signal.SIGINT)
        log = run.stderr.read()
        self.assertEqual(run.wait(60), 130, log)
        self.assertNotIn("is gone", log)
        self.assertEqual(virtrain("clean", "--hosts", "gpu-a,gpu-b", "--verify").returncode, 0)


if __name__ == "__main__":
    if rigs.missing():
        print(f"skipped: {rigs.missing()}")
        sys.exit(77)
    unittest.main()
