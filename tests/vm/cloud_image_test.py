#!/usr/bin/python3
"""Two VMs from a cloud image (Debian, BIOS, cloud-init, made here of packages) train together over their network."""

import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))

import outside

HERE = pathlib.Path(__file__).resolve().parent
IMAGE = outside.BUILD / "cloud-image.qcow2"
PROOF = """SELECT n.name, n.kernel, n.guest_boot_id, n.hostname, n.domain_xml, n.console_log FROM node n ORDER BY n.id"""


def image():
    if not IMAGE.exists():
        subprocess.run([HERE / "make_cloud_image.sh", IMAGE], check=True, stdout=subprocess.DEVNULL, timeout=600)
    return IMAGE


def two_guests_of_a_cloud_image_train_together():
    with outside.scratch() as folder:
        # QEMU's user has to reach the base of the overlays.
        base = folder / "cloud.qcow2"
        shutil.copyfile(image(), base)
        os.chmod(base, 0o644)
        os.chmod(folder, 0o755)
        before = base.stat()
        text = outside.scenario(arms=["vm"], pairs=1, cases=[{"name": "two", "tenants": [{"nodes": 2}]}],
                                workload={"batch_size": 2, "steps": 1}, trial_timeout="15m",
                                guest={"memory": "1GiB", "image": str(base)})
        done = outside.Run(folder, text, program=outside.QUICK_KIT / "virtrain")
        assert done.end(600) == 0, done.log[-8:]
        (trial,) = done.trials()
        assert trial["valid"] and trial["nodes"] == 2, trial
        nodes = done.rows(PROOF)
        assert [node["hostname"] for node in nodes] == ["t1n1", "t1n2"], nodes
        assert len({node["guest_boot_id"] for node in nodes}) == 2, nodes
        assert all("-cloud-amd64" in node["kernel"] for node in nodes), nodes
        assert all("<kernel>" not in node["domain_xml"] and "virtrain-root" in node["domain_xml"] for node in nodes)
        (tenant,) = done.rows("SELECT network_bytes_measured AS measured, network_bytes_required AS required FROM tenant")
        assert tenant["measured"] >= tenant["required"] > 100e6, tenant
        # The image is as it was, and what the VMs wrote is gone with them.
        after = base.stat()
        assert (before.st_mtime_ns, before.st_uid, before.st_size) == (after.st_mtime_ns, after.st_uid, after.st_size)
        logs = pathlib.Path(nodes[0]["console_log"]).parent
        left = [path.name for path in logs.iterdir() if path.suffix in (".qcow2", ".iso")]
        assert not left, left


def arms_boot_their_own_images():
    with outside.scratch() as folder:
        base = folder / "cloud.qcow2"
        shutil.copyfile(image(), base)
        os.chmod(base, 0o644)
        os.chmod(folder, 0o755)
        arms = ["vm", {"name": "vm-cloud", "like": "vm", "guest": {"image": str(base)}}]
        text = outside.scenario(arms=arms, pairs=2, workload={"batch_size": 2, "steps": 2}, trial_timeout="15m", guest={"memory": "1GiB"})
        done = outside.Run(folder, text, program=outside.QUICK_KIT / "virtrain")
        assert done.end(600) == 0, done.log[-8:]
        nodes = done.rows("SELECT t.arm, n.domain_xml FROM trial t JOIN tenant w ON w.trial_id = t.id JOIN node n ON n.tenant_id = w.id ORDER BY t.id")
        assert [node["arm"] for node in nodes] == ["vm", "vm-cloud", "vm-cloud", "vm"], nodes
        assert ["<kernel>" in node["domain_xml"] for node in nodes] == [True, False, False, True], nodes


if __name__ == "__main__":
    outside.main({"two_guests_of_a_cloud_image_train_together": two_guests_of_a_cloud_image_train_together,
                  "arms_boot_their_own_images": arms_boot_their_own_images})
