#!/usr/bin/python3
"""A user who is not root runs with root's privileges (docs/hosts.md): through sudo, and through the socket of group virtrain.
Root does what only root can; agent and ranks on bare metal, database, report and home are the user's. Signals reach whom they
are for, and whichever process goes, nothing of root's is left.

usage: elevation_test.py elevation|host_signals[_NAME]"""

import hashlib
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
KIT = pathlib.Path(os.environ["VIRTRAIN_FAULT_KIT"])
PROGRAMS = ["virtrain", "virtrain-agent", "virtrain-host", "virtrain-rsh", "virtrain-slice", "virtrain-guest-init"]
USER, ID, PASSWORD = "virtrain-ada", 61183, "lovelace"
SOCKET = pathlib.Path("/run/virtrain-host.socket")
SCENARIO = """
name: elevation
workload: {{backend: cpu, batch_size: 2, image_size: 32, warmup_steps: 0, steps: {steps}}}
guest: {{vcpus: 1, memory: 512MiB, pinning: cores}}
cases: [{{name: one, tenants: [{{nodes: 1}}]}}]
arms: [{arms}]
pairs: 1
"""


def be_where_the_user_has_an_account():
    """In mounts of this process's own, so that this host's accounts stay as they are."""
    if "VIRTRAIN_TEST_OWN_MOUNTS" not in os.environ:
        os.environ["VIRTRAIN_TEST_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


class Place:
    def __init__(self):
        self.started = []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-elevation-"))
        self.folder.chmod(0o755)
        for program in PROGRAMS:
            shutil.copy(BUILD / program, self.folder)
        shutil.copy(KIT / "virtrain-resnet50-cpu", self.folder)  # sleeps its steps
        self.home = self.folder / "home"
        self.home.mkdir()
        os.chown(self.home, ID, ID)
        self.replace("/etc/passwd", f"{USER}:x:{ID}:{ID}::{self.home}:/bin/sh\n")
        secret = subprocess.run(["openssl", "passwd", "-6", PASSWORD], capture_output=True, text=True, check=True).stdout.strip()
        self.replace("/etc/shadow", f"{USER}:{secret}:20000:0:99999:7:::\n")
        self.groups = self.replace("/etc/group", f"{USER}:x:{ID}:\n")
        self.rule = self.replace("/etc/sudoers", "")

    def replace(self, file, more):
        """The file is another one here, with these lines at its end."""
        copy = self.folder / pathlib.Path(file).name
        shutil.copy2(file, copy)
        os.chown(copy, *[getattr(os.stat(file), name) for name in ("st_uid", "st_gid")])
        with copy.open("a") as out:
            out.write(more)
        subprocess.run(["mount", "--bind", copy, file], check=True)
        return copy

    def may_use_sudo(self, how):
        rule = {"no": "", "after a question": f"{USER} ALL=(root) {self.folder}/virtrain-host\n",
                "yes": f"{USER} ALL=(root) NOPASSWD: {self.folder}/virtrain-host\n"}[how]
        self.rule.chmod(0o640)
        self.rule.write_text("Defaults env_reset, !lecture\n" + rule)
        self.rule.chmod(0o440)

    def scenario(self, arms, steps=3):
        file = self.folder / f"{'-'.join(arms)}-{steps}.yaml"
        file.write_text(SCENARIO.format(arms=", ".join(arms), steps=steps))
        return file

    def command(self, *words):
        return ["setpriv", f"--reuid={ID}", f"--regid={ID}", "--init-groups", str(self.folder / "virtrain"), *map(str, words)]

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "USER": USER}

    def start(self, *words):
        self.started.append(subprocess.Popen(self.command(*words), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                             cwd=self.home, env=self.environment()))
        return self.started[-1]

    def start_on_a_terminal(self, *words):
        """Process and terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.home)
            command = self.command(*words)
            os.execvpe(command[0], command, self.environment())
        return pid, terminal

    def run_on_a_terminal(self, *words):
        """Answers each question with the password. Returns the exit status and all that was on the terminal."""
        pid, terminal = self.start_on_a_terminal(*words)
        shown, answered, ends = b"", 0, time.monotonic() + 120
        while time.monotonic() < ends:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                shown += os.read(terminal, 4096)
            except OSError:
                break
            if shown.count(b"password of") > answered:
                answered += 1
                os.write(terminal, PASSWORD.encode() + b"\n")
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode(errors="replace")

    def run(self, *words):
        process = self.start(*words)
        return process, process.communicate(timeout=900)[0]

    def not_the_users(self):
        found = subprocess.run(["find", self.home, "!", "-user", str(ID)], capture_output=True, text=True, check=True)
        return found.stdout.split()


def processes(name):
    found = subprocess.run(["pgrep", "-x", name], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def owner_of(pid):
    return os.stat(f"/proc/{pid}").st_uid


def below(ancestor, names):
    """Processes of these names (the kernel keeps 15 letters) below that one: pid by name."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in table.splitlines()]
    ours, found = {ancestor}, {}
    for _ in lines:  # parents may come after their children
        ours |= {int(pid) for pid, parent, _ in lines if int(parent) in ours}
    for pid, _, name in lines:
        if int(pid) in ours and name in names:
            found[name] = int(pid)
    return found


def until(what, seconds=120):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def rows(database, sql):
    with sqlite3.connect(database) as connection:
        return connection.execute(sql).fetchall()


def check_a_run(place, *more):
    """Bare metal with namespaces and without, and a VM."""
    database, report = place.home / "own.db", place.home / "own.html"
    scenario = place.scenario(["bare_metal", "bare_metal_shared", "vm"])
    process, words = place.run("run", scenario, "--db", database, "--report", report, "--wait", *more)
    assert process.returncode == 0 and "3 trials finished, 0 failed" in words, words
    trials = rows(database, "SELECT arm, valid FROM v_trial ORDER BY arm")
    assert trials == [("bare_metal", 1), ("bare_metal_shared", 1), ("vm", 1)], (trials, words)
    assert place.not_the_users() == [], place.not_the_users()
    assert os.stat(database).st_uid == os.stat(report).st_uid == ID
    for file in (database, report):
        file.unlink()


def long_run(place, *more):
    return ("run", place.scenario(["bare_metal"], steps=200), "--db", place.home / "who.db", "--wait", *more)


def processes_of_a_run(ancestor):
    """Once its trainer is at work."""
    wanted = {"virtrain-agent", "virtrain-resnet"}
    return until(lambda: (lambda seen: seen if wanted <= set(seen) else None)(
        below(ancestor, {*wanted, "virtrain-host", "virtrain-slice"})))


def are_gone(found):
    return not any(pathlib.Path(f"/proc/{pid}").exists() for pid in found.values())


def check_who_runs_what(place, host_below, *more):
    """While it runs: the host process is root's, agent and trainer are the user's, with locked memory as they like."""
    process = place.start(*long_run(place, *more))
    found = processes_of_a_run(host_below(process))
    owners = {name: owner_of(pid) for name, pid in found.items()}
    assert owners == {"virtrain-agent": ID, "virtrain-resnet": ID, "virtrain-host": 0, "virtrain-slice": 0}, owners
    limits = pathlib.Path(f"/proc/{found['virtrain-agent']}/limits").read_text()
    may_raise = subprocess.run(["prlimit", "--memlock=unlimited:unlimited", "true"], capture_output=True, check=False).returncode == 0
    soft, hard = next(line for line in limits.splitlines() if line.startswith("Max locked memory")).split()[3:5]
    assert soft == hard and (not may_raise or soft == "unlimited"), limits
    status = pathlib.Path(f"/proc/{found['virtrain-agent']}/status").read_text()
    capabilities = [line.split()[1] for line in status.splitlines() if line.startswith(("CapPrm", "CapEff", "CapInh"))]
    assert {int(word, 16) for word in capabilities} == {0}, capabilities
    assert f"\nGroups:\t{ID}" in status, status
    environment = pathlib.Path(f"/proc/{found['virtrain-agent']}/environ").read_text().split("\0")
    assert f"HOME={place.home}" in environment and not [word for word in environment if word.startswith(("XDG_", "SUDO_"))], environment
    return process, found


def check_a_clean(place, *more):
    process, words = place.run("clean", "--verify", *more)
    assert process.returncode == 0 and "nothing is left over" in words, words


def elevation_sudo_starts_the_host_process_and_nothing_else(place):
    place.may_use_sudo("yes")
    check_a_run(place, "--privileges", "sudo")
    process, _ = check_who_runs_what(place, lambda run: run.pid, "--privileges", "sudo")
    # The user's own look, which knows nothing of root's journal, takes nothing of a live run for a leftover.
    check_a_clean(place, "--privileges", "none")
    process.send_signal(signal.SIGINT)
    words = process.communicate(timeout=120)[0]
    assert process.returncode == 130, (process.returncode, words)
    check_a_clean(place, "--privileges", "sudo")


def host_signals_a_killed_coordinator_leaves_nothing_of_roots(place):
    place.may_use_sudo("yes")
    process, found = check_who_runs_what(place, lambda run: run.pid, "--privileges", "sudo")
    process.kill()
    process.communicate(timeout=120)  # the host process has its standard error, too
    until(lambda: are_gone(found))
    process, words = place.run("clean", "--privileges", "sudo")
    assert process.returncode == 0 and "interrupted: experiment" in words, words
    assert rows(place.home / "who.db", "SELECT DISTINCT status FROM experiment") == [("interrupted",)]
    assert place.not_the_users() == [], place.not_the_users()


def host_signals_a_killed_sudo_and_a_hangup_end_a_run_in_order(place):
    """sudo's death closes nothing, so the run goes on; a hangup is the coordinator's to hear."""
    place.may_use_sudo("yes")
    process, found = check_who_runs_what(place, lambda run: run.pid, "--privileges", "sudo")
    sudo = int(pathlib.Path(f"/proc/{found['virtrain-host']}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert pathlib.Path(f"/proc/{sudo}/comm").read_text() == "sudo\n"
    for end in (signal.SIGINT, signal.SIGHUP):
        os.kill(found["virtrain-host"], end)
    os.kill(sudo, signal.SIGKILL)
    time.sleep(1)
    assert process.poll() is None and owner_of(found["virtrain-host"]) == 0
    process.send_signal(signal.SIGHUP)
    words = process.communicate(timeout=120)[0]
    assert process.returncode == 129, (process.returncode, words)
    until(lambda: are_gone(found))
    check_a_clean(place, "--privileges", "sudo")


def host_signals_of_a_terminal_end_a_run_in_order(place):
    """Ctrl-C reaches the terminal's foreground; a closed terminal hangs up."""
    place.may_use_sudo("yes")
    for end, status in ((lambda terminal: os.write(terminal, b"\x03"), 130), (os.close, 129)):
        pid, terminal = place.start_on_a_terminal(*long_run(place, "--privileges", "sudo"))
        reader = threading.Thread(target=read_until_closed, args=(terminal,), daemon=True)
        reader.start()
        found = processes_of_a_run(pid)
        end(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status
        until(lambda: are_gone(found))
        check_a_clean(place, "--privileges", "sudo")
        statuses = rows(place.home / "who.db", "SELECT DISTINCT status FROM experiment WHERE id = (SELECT max(id) FROM experiment)")
        assert statuses == [("interrupted",)], statuses


def read_until_closed(terminal):
    """A terminal that nobody reads would stop who writes to it."""
    try:
        while select.select([terminal], [], [], 60)[0] and os.read(terminal, 4096):
            pass
    except (OSError, ValueError):
        pass


def elevation_root_starts_no_program_of_the_users(place):
    """sudoers without secure_path lets the user's PATH through."""
    place.may_use_sudo("yes")
    traps, caught = place.home / "traps", place.home / "caught"
    traps.mkdir()
    for name in ("ip", "modprobe", "ldd", "qemu-img", "supermin", "dpkg", "nvidia-smi", "systemctl"):
        (traps / name).write_text(f"#!/bin/sh\n[ $(id -u) != 0 ] || echo {name} >> {caught}\nPATH=$REST exec {name} \"$@\"\n")
        (traps / name).chmod(0o755)
    environment = place.environment()
    environment.update(PATH=f"{traps}:{environment['PATH']}", REST=environment["PATH"], VIRTRAIN_STATE_DIR=str(place.home / "state"))
    words = place.command("run", place.scenario(["bare_metal"]), "--db", place.home / "traps.db", "--wait", "--privileges", "sudo")
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=place.home, env=environment, timeout=300)
    shutil.rmtree(traps)
    assert done.returncode == 0 and not caught.exists(), (done, caught.exists() and caught.read_text())
    assert place.not_the_users() == []


def elevation_sudo_is_tried_unasked_by_administrators_only(place):
    """Others it would report."""
    place.may_use_sudo("yes")
    scenario, groups = place.scenario(["bare_metal"]), place.groups.read_text()
    process, words = place.run("doctor", scenario)
    assert "in mode system" not in words, words
    place.groups.write_text(re.sub(r"(?m)^sudo:.*$", f"sudo:x:27:{USER}", groups))
    process, words = place.run("doctor", scenario)
    assert process.returncode == 0 and "in mode system" in words, words
    process, words = place.run("doctor", scenario, "--privileges", "none")
    assert "in mode system" not in words, words
    place.groups.write_text(groups)


def elevation_an_image_of_the_users_own_is_read_by_qemu_and_by_no_other_user(place):
    """A disk without a system: QEMU boots from it, and no agent ever comes."""
    place.may_use_sudo("yes")
    image = place.home / "own.raw"
    image.write_bytes(os.urandom(1 << 20))
    os.chown(image, ID, ID)
    image.chmod(0o600)
    place.home.chmod(0o700)
    scenario = place.folder / "image.yaml"
    scenario.write_text(place.scenario(["vm"]).read_text().replace("pinning: cores}", f"pinning: cores, image: {image}}}")
                        + "boot_timeout: 3s\n")
    process, words = place.run("run", scenario, "--db", place.home / "image.db", "--wait", "--privileges", "sudo")
    place.home.chmod(0o755)
    assert process.returncode != 0 and "no message from it" in words and "ermission" not in words, words
    name = hashlib.sha256(image.read_bytes()).hexdigest()[:32]
    copy = pathlib.Path(f"/var/cache/virtrain/images/{name}/disk")
    assert copy.read_bytes() == image.read_bytes() and copy.stat().st_mode & 0o7777 == 0o400, oct(copy.stat().st_mode)
    shutil.rmtree(copy.parent)
    # What only root may read is none of the user's images.
    image.chmod(0o600)
    os.chown(image, 0, 0)
    process, words = place.run("run", scenario, "--db", place.home / "image.db", "--wait", "--privileges", "sudo")
    assert process.returncode == 4 and "you may not read it" in words, words
    image.unlink()


def elevation_root_reads_no_recorded_host_for_a_user(place):
    """Whose files could be links to any file of root's."""
    place.may_use_sudo("yes")
    fake = place.folder / "fake-host"
    (fake / "etc").mkdir(parents=True)
    (fake / "etc/hostname").symlink_to("/etc/shadow")
    as_user = place.command()[:4]
    asked = subprocess.run([*as_user, "sudo", "-n", place.folder / "virtrain-host", "--root", fake], capture_output=True, text=True,
                           check=False, stdin=subprocess.DEVNULL, env=place.environment())
    assert asked.returncode == 2 and "root reads none for user" in asked.stderr and not asked.stdout, asked


def elevation_sudo_asks_once_on_a_terminal_and_never_elsewhere(place):
    place.may_use_sudo("after a question")
    database = place.home / "asked.db"
    words = ("run", place.scenario(["bare_metal"]), "--db", database, "--wait", "--privileges", "sudo")
    process, said = place.run(*words)
    assert process.returncode == 4 and "a password is required" in said and not database.exists(), said
    try:
        status, shown = place.run_on_a_terminal(*words)
        assert status == 0 and "1 trial finished, 0 failed" in shown and shown.count("password of") == 1, (status, shown)
        assert rows(database, "SELECT valid FROM v_trial") == [(1,)] and place.not_the_users() == []
    finally:
        pathlib.Path(f"/run/sudo/ts/{USER}").unlink(missing_ok=True)


def elevation_without_a_rule_it_is_refused_in_words(place):
    place.may_use_sudo("no")
    database = place.home / "refused.db"
    process, words = place.run("run", place.scenario(["bare_metal"]), "--db", database, "--privileges", "sudo")
    assert process.returncode == 4 and "sudo -v first" in words and not database.exists(), words
    process, words = place.run("run", place.scenario(["bare_metal"]), "--db", database, "--privileges", "group")
    assert process.returncode == 4 and "virtrain-host.socket" in words and not database.exists(), words


class Listener(threading.Thread):
    """As systemd's socket with Accept=yes: a process for each connection, which is its standard input and output."""

    def __init__(self, program):
        super().__init__(daemon=True)
        self.program, self.children = program, []
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(SOCKET))
        os.chown(SOCKET, 0, ID)
        SOCKET.chmod(0o660)
        self.listening.listen()
        self.start()

    def run(self):
        while True:
            try:
                connection = self.listening.accept()[0]
            except OSError:
                return
            self.children.append(subprocess.Popen([self.program, "--mode", "system"], stdin=connection, stdout=connection,
                                                  env={"PATH": os.environ["PATH"]}))
            connection.close()

    def end(self):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        SOCKET.unlink()


def elevation_a_member_of_the_group_runs_without_sudo(place):
    place.may_use_sudo("no")
    if SOCKET.exists():
        print(f"{SOCKET} is there already")
        sys.exit(77)
    listener = Listener(place.folder / "virtrain-host")
    try:
        check_a_run(place)
        process, found = check_who_runs_what(place, lambda run: os.getpid())
        process.kill()
        process.communicate(timeout=60)
        until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() and pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                              for pid in found.values()))
        for child in listener.children:
            assert child.wait(timeout=60) == 0
        process, words = place.run("clean")
        assert process.returncode == 0 and "interrupted: experiment" in words, words
        check_a_clean(place)
    finally:
        listener.end()


def main():
    if os.geteuid() != 0:
        print("SKIP: becoming other users needs root")
        sys.exit(77)
    be_where_the_user_has_an_account()
    place = Place()
    try:
        for name, test in sorted(globals().items()):
            if name.startswith(sys.argv[1]):
                began = time.monotonic()
                test(place)
                print(f"ok   {name} ({time.monotonic() - began:.1f} s)", flush=True)
    finally:
        for process in place.started:  # those of a test that failed
            process.terminate()
            process.wait(timeout=120)
        shutil.rmtree(place.folder, ignore_errors=True)


main()
