#!/usr/bin/python3
"""A VM made from a user's own domain XML (guest.template): it has the processor, features and devices of
the XML, trains, and nothing of it stays. Needs root."""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
SKIPPED = 77
TEMPLATE = """<domain type='kvm'>
  <name>somebodys-vm</name>
  <memory unit='MiB'>768</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <features><acpi/><apic/><pmu state='off'/></features>
  <cpu mode='maximum'>
    <topology sockets='1' cores='1' threads='1'/>
  </cpu>
  <clock offset='utc'><timer name='hpet' present='no'/></clock>
  <devices>
    <video><model type='vga'/></video>
    <memballoon model='virtio'/>
  </devices>
</domain>
"""


def domains():
    return set(subprocess.run(["virsh", "-q", "list", "--all", "--name"], capture_output=True, text=True, check=False).stdout.split())


def main():
    if os.geteuid() != 0:
        print("skipped: needs root")
        sys.exit(SKIPPED)
    before = domains()
    with tempfile.TemporaryDirectory(prefix="virtrain-template-") as folder:
        folder = pathlib.Path(folder)
        (folder / "domain.xml").write_text(TEMPLATE)
        (folder / "s.yaml").write_text(json.dumps({
            "name": "template", "workload": {"batch_size": 2, "image_size": 33, "warmup_steps": 0, "steps": 2},
            "guest": {"vcpus": 1, "memory": "768MiB", "template": "domain.xml"}, "cases": [{"name": "c", "tenants": [{"nodes": 1}]}],
            "arms": ["vm"], "pairs": 1, "boot_timeout": "300s"}))
        run = subprocess.run([BUILD / "virtrain", "run", folder / "s.yaml", "--db", folder / "r.db"], capture_output=True, text=True)
        assert run.returncode == 0, f"exit {run.returncode}\n{run.stdout}\n{run.stderr}"
        with sqlite3.connect(folder / "r.db") as db:
            status, valid = db.execute("SELECT status, valid FROM trial").fetchone()
            text, = db.execute("SELECT domain_xml FROM node").fetchone()
            plan = json.loads(db.execute("SELECT plan FROM experiment").fetchone()[0])
    assert (status, valid) == ("finished", 1), run.stderr
    domain = ElementTree.fromstring(text)
    assert domain.findtext("name").startswith("virtrain-"), text
    assert domain.find("features/pmu").get("state") == "off", text
    assert domain.find("cpu").get("mode") == "maximum", text
    assert [one.get("model") for one in domain.findall("devices/memballoon")] == ["virtio"], text
    assert domain.find("devices/video/model").get("type") == "vga", text
    assert domain.find("devices/channel/target").get("name") == "org.virtrain.agent.0", text
    assert "<pmu state=" in plan["trials"][0]["guest"]["template"], plan["trials"][0]["guest"]
    assert domains() - before == set(), domains()


if __name__ == "__main__":
    main()
