#!/usr/bin/python3
"""The JSON Schema against every shipped scenario and every refusal of tests/data/refusals.

Each refusal says with "# schema: refuses" or "# schema: cannot: WHY" what the schema is to do with it; both are
checked, so that a schema that learns to refuse more gets its "cannot" taken away.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"skipped: {error} (apt-get install python3-jsonschema python3-yaml)")
    sys.exit(77)

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("VIRTRAIN_BUILD", SOURCE / "build"))
SCHEMA = json.loads(subprocess.run([BUILD / "virtrain", "schema"], capture_output=True, text=True, check=True).stdout)


class CoreLoader(yaml.SafeLoader):
    """YAML 1.2's core schema, as editors read: PyYAML is YAML 1.1, where 0000:17:00.0 is a number and yes is true."""


CoreLoader.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
     list("-+0123456789.")),
]:
    CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)


def load_whole_number(loader, node):
    text = node.value
    if text.startswith("0x"):
        return int(text, 16)
    return int(text[2:], 8) if text.startswith("0o") else int(text, 10)


CoreLoader.add_constructor("tag:yaml.org,2002:int", load_whole_number)


def keys(schema, path=""):
    """Of a schema and of all schemas in it: each key's path, its schema, and whether it is required."""
    for inner in [schema.get("items"), *schema.get("anyOf", [])]:
        if isinstance(inner, dict):
            yield from keys(inner, path + "[]" if inner is schema.get("items") else path)
    # guest.template may say the sizes in their place.
    says = schema["anyOf"][0] if path == "guest" and "anyOf" in schema else schema
    required = says.get("required", [])
    for name, one in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield below, one, name in required
        yield from keys(one, below)


def accepts(text):
    document = yaml.load(text, Loader=CoreLoader)
    return jsonschema.Draft7Validator(SCHEMA).is_valid(document)


class Schema(unittest.TestCase):
    def test_editors_find_it_beside_the_shipped_scenarios(self):
        """Written by: virtrain schema > scenarios/virtrain.schema.json"""
        self.assertEqual(json.loads((SOURCE / "scenarios/virtrain.schema.json").read_text()), SCHEMA)
        for scenario in sorted((SOURCE / "scenarios").glob("*.yaml")):
            self.assertEqual(scenario.read_text().split("\n", 1)[0], "# yaml-language-server: $schema=virtrain.schema.json", scenario.name)

    def test_a_template_may_say_the_sizes(self):
        def is_accepted(guest):
            return accepts(f"name: s\nworkload: {{}}\nguest: {guest}\ncases: [{{name: c, tenants: [{{nodes: 1}}]}}]\n")
        self.assertTrue(is_accepted("{vcpus: 1, memory: 1GiB}"))
        self.assertTrue(is_accepted("{template: domain.xml}"))
        self.assertFalse(is_accepted("{vcpus: 1}"))

    def test_is_itself_valid(self):
        jsonschema.Draft7Validator.check_schema(SCHEMA)

    def test_every_key_is_described(self):
        found = {path: (one, required) for path, one, required in keys(SCHEMA)}
        self.assertGreaterEqual(len(found), 240)
        for path in ("cases[].tenants[].workload.batch_size", "arms[].guest.hugepages", "pairs.budget"):
            self.assertIn(path, found)
        for path, (one, required) in found.items():
            with self.subTest(path):
                text = one.get("description", "")
                self.assertGreater(len(text), 5)
                self.assertLessEqual(text.count("Absent: "), 1)
                says = [required, "default" in one, bool(re.search(r"[^.]\. Absent: \w", text))]
                self.assertEqual(says.count(True), 1, "(required, default, Absent: …): one of them, and one only")
                self.assertEqual(len(one.get("examples", [])), 1)
                for value in one["examples"] + [one[k] for k in ("default",) if k in one]:
                    jsonschema.Draft7Validator(one).validate(value)

    def test_defaults_and_absences(self):
        found = {path: one for path, one, _ in keys(SCHEMA)}
        self.assertEqual(found["workload.precision"]["default"], "fp32")
        self.assertEqual(found["workload.batch_size"]["default"], 32)
        for path, absent in [
            ("workload.threads", "the node's cores divided by its ranks"),
            ("cases[].workload.batch_size", "as in the scenario's workload"),
            ("cases[].tenants[].workload.batch_size", "as in the case's workload"),
            ("isolation.victims[].workload.batch_size", "as in the scenario's workload"),
            ("cases[].tenants[].limits.cpu", "as in guest.limits"),
            ("guest.limits.cpu", "no limit"),
            ("arms[].guest.network.queues", "as in the arm that like names"),
            ("arms[].devices.nics.kind", "as in the arm that like names"),
        ]:
            self.assertRegex(found[path]["description"], re.escape(f". Absent: {absent}") + "$", path)

    def test_examples_make_a_scenario(self):
        """What editors propose for the top-level keys, put together: the schema accepts it, and so does the product."""
        top = {path: one["examples"][0] for path, one, _ in keys(SCHEMA) if "." not in path}
        for left_out in [{"isolation"}, {"cases", "sweep", "pairs"}]:
            document = {key: value for key, value in top.items() if key not in left_out}
            jsonschema.Draft7Validator(SCHEMA).validate(document)
            valid = subprocess.run([BUILD / "virtrain", "validate", "-"], input=json.dumps(document), capture_output=True, text=True)
            self.assertEqual((valid.returncode, valid.stderr), (0, ""))

    def test_accepts_every_shipped_scenario(self):
        files = sorted((SOURCE / "scenarios").glob("*.yaml"))
        self.assertGreaterEqual(len(files), 10)
        for file in files:
            with self.subTest(file.name):
                document = yaml.load(file.read_text(), Loader=CoreLoader)
                jsonschema.Draft7Validator(SCHEMA).validate(document)

    def test_accepts_what_scenarios_may_say(self):
        small = "name: s\nworkload: {}\nguest: {vcpus: 1, memory: 512MiB}\ncases: [{name: a, scale: {nodes: [1]}}]\n"
        self.assertTrue(accepts(small))
        for more in [
            "devices: {kind: passthrough, select: {vendor: 0x10de, address: [0000:17:00.0]}}",
            "devices: {kind: vgpu, select: {vendor: '0x10DE', count: 2}}",
            "expect: {vm_vs_bare_metal: {margin: 0.02, alpha: 5%}}",
            "expect: {vm_vs_bare_metal: {margin: 2.5%}}",
            "settle: 500ms",
            "boot_timeout: 1.5m",
            "arms: [vm, bare_metal_shared]",
            "probes: [triad, memory_copy, gemm, gpu_gemm, device_copy, host_to_device, device_to_host, peer_copy]",
            "description: any",
        ]:
            with self.subTest(more):
                self.assertTrue(accepts(small + more + "\n"))

    def test_refusals(self):
        files = sorted((SOURCE / "tests/data/refusals").glob("*.yaml"))
        self.assertGreaterEqual(len(files), 90)
        for file in files:
            with self.subTest(file.name):
                text = file.read_text()
                says = text.split("\n")[1]
                self.assertRegex(says, r"^# schema: (refuses$|cannot: .)")
                try:
                    accepted = accepts(text)
                except (yaml.YAMLError, RecursionError, ValueError, TypeError):
                    accepted = None  # no YAML: the schema is not asked
                if says == "# schema: refuses":
                    self.assertIs(accepted, False)
                else:
                    self.assertIsNot(accepted, False)


if __name__ == "__main__":
    unittest.main()
