#!/usr/bin/python3
"""executable_test.py BUILD: virtrain-canary in network namespaces. Two tenants, each with a network of its own, do not hear of each other; with
their networks joined (the planted leak) each way from one to the other is found: TCP, IPv6 link-local, ARP, broadcasts, ping."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

CANARY = str(pathlib.Path(sys.argv[1]) / "virtrain-canary")
TAG = f"vc{os.getpid() % 100000}"
OWNER, PEER, OWN = (f"vt-canary-{name}".ljust(32, "0") for name in ("owner", "peer", "own"))


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def canary(verb, request, namespace=None):
    command = [CANARY, verb] if namespace is None else ["ip", "netns", "exec", namespace, CANARY, verb]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (verb, done.stdout, done.stderr)
    return json.loads(done.stdout)


@contextlib.contextmanager
def networks():
    """Bridges a and b; on a the node `owner`, on b the nodes `peer` and `looking`."""
    nodes = {"owner": ("a", "10.77.0.1"), "peer": ("b", "10.77.0.2"), "looking": ("b", "10.77.0.1")}
    try:
        for bridge in "ab":
            ip("link", "add", f"{TAG}{bridge}", "type", "bridge", "stp_state", "0", "forward_delay", "0")
            ip("link", "set", f"{TAG}{bridge}", "addrgenmode", "none")
            ip("link", "set", f"{TAG}{bridge}", "up")
        for node, (bridge, address) in nodes.items():
            ip("netns", "add", f"{TAG}{node}")
            ip("link", "add", f"{TAG}{node[:2]}", "type", "veth", "peer", "name", "eth0", "netns", f"{TAG}{node}")
            ip("link", "set", f"{TAG}{node[:2]}", "master", f"{TAG}{bridge}", "up")
            ip("-n", f"{TAG}{node}", "addr", "add", f"{address}/16", "dev", "eth0")
            ip("-n", f"{TAG}{node}", "link", "set", "eth0", "up")
        yield nodes
    finally:
        for name in ["j0", "a", "b"]:
            subprocess.run(["ip", "link", "delete", f"{TAG}{name}"], stderr=subprocess.DEVNULL, check=False)
        for node in nodes:
            pids = subprocess.run(["ip", "netns", "pids", f"{TAG}{node}"], capture_output=True, text=True, check=False).stdout.split()
            for pid in pids:
                os.kill(int(pid), 9)
            subprocess.run(["ip", "netns", "delete", f"{TAG}{node}"], stderr=subprocess.DEVNULL, check=False)


def listen(node, address, alias, text, port):
    request = {"address": address, "alias": alias, "ports": [1024, 40000], "vsock_port": port, "canary": text, "seconds": 60}
    return canary("listen", request, f"{TAG}{node}")


def test_network():
    with networks():
        owner = listen("owner", "10.77.0.1", "10.77.200.1", OWNER, 47201)
        peer = listen("peer", "10.77.0.2", "10.77.200.2", PEER, 47202)
        # The owner's own address is the same as that of the node that looks, as tenants' addresses are.
        listen("looking", "10.77.0.1", "10.77.200.3", OWN, 47203)
        targets = []
        for who, alias, said in (("owner", "10.77.200.1", owner), ("peer", "10.77.200.2", peer)):
            targets += [{"kind": "tcp4", "name": f"{who}/tcp", "address": alias, "port": 1024},
                        {"kind": "tcp4", "name": f"{who}/closed", "address": alias, "port": 22},
                        {"kind": "tcp6", "name": f"{who}/ipv6", "address": said["link_local"], "port": 40000},
                        {"kind": "arp", "name": f"{who}/arp", "address": alias}]
        targets.append({"kind": "ping6", "name": "ping", "address": "ff02::1"})
        scans = [{"name": f"{who}/{family}", "address": address, "mac": said["mac"]}
                 for who, alias, said in (("owner", "10.77.200.1", owner), ("peer", "10.77.200.2", peer))
                 for family, address in (("all", alias), ("all6", said["link_local"]))]
        scans.append({"name": "peer/two", "address": "10.77.200.2", "mac": peer["mac"], "ports": [22, 40000]})
        request = {"address": "10.77.0.1", "source": "10.77.200.3", "targets": targets, "canaries": {"owner": OWNER, "peer": PEER},
                   "milliseconds": 3500, "scans": scans}

        def reach(reached):
            """Every port of whom it reaches answers, and none of the others."""
            report = canary("reach", request, f"{TAG}looking")
            for one in report["scans"]:
                who, what = one["target"].split("/")
                assert one["scanned"] == one["total"] == (2 if what == "two" else 65535), one
                if who not in reached:
                    assert one["answered"] == 0 and not one["open"] + one["closed"], one
                elif what == "two":
                    assert (one["answered"], one["open"], one["closed"]) == (2, [40000], [22]), one
                else:
                    assert one["answered"] > 60000 and one["open"] == [1024, 40000], one
            return {(one["target"], one["how"], one["canary"] or one["who"]) for one in report["answers"]}, set(report["heard"])

        def of(who, said):
            return {(f"{who}/tcp", "connected", who), (f"{who}/closed", "refused", ""), (f"{who}/ipv6", "connected", who),
                    (f"{who}/arp", "replied", said["mac"]), ("ping", "replied", said["link_local"])}
        answers, heard = reach({"peer"})
        assert answers == of("peer", peer), answers
        assert heard == {"peer"}, heard
        ip("link", "add", f"{TAG}j0", "type", "veth", "peer", "name", f"{TAG}j1")
        for end, bridge in (("j0", "a"), ("j1", "b")):
            ip("link", "set", f"{TAG}{end}", "master", f"{TAG}{bridge}", "up")
        answers, heard = reach({"peer", "owner"})
        assert answers == of("peer", peer) | of("owner", owner), answers
        assert heard == {"peer", "owner"}, heard


def test_refusals():
    for arguments, text, word in ((["dig"], "", "expects one of"), (["search"], "{", "read the request"),
                                  (["search"], '{"canaries":{"a":"b"},"roots":[]}', "is not a canary")):
        done = subprocess.run([CANARY, *arguments], input=text, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode != 0 and word in done.stderr, (arguments, done.stderr)


def test_no_gpu():
    """Without a GPU, its driver or CUDA: an error and no hang, and a reason where memory is only asked for."""
    for verb, request in (("fill", {"paths": ["cuda:0000:ff:1f.7"], "canary": OWNER, "seconds": 5}),
                          ("search", {"roots": ["cuda:0000:ff:1f.7"], "canaries": {"owner": OWNER}, "seconds": 5})):
        done = subprocess.run([CANARY, verb], input=json.dumps(request), capture_output=True, text=True, timeout=60, check=False)
        error = json.loads(done.stdout.splitlines()[-1])
        assert done.returncode != 0 and error["record"] == "error" and "GPU 0000:ff:1f.7" in error["operation"], (done.returncode, error)
    assert canary("memory", {"functions": ["0000:ff:1f.7"]})["lacks"] == ""


def main():
    test_refusals()
    test_no_gpu()
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        return 77
    test_network()
    return 0


sys.exit(main())
