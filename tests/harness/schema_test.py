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


def accepts(text):
    document = yaml.load(text, Loader=CoreLoader)
    return jsonschema.Draft7Validator(SCHEMA).is_valid(document)


class Schema(unittest.TestCase):
    def test_editors_find_it_beside_the_shipped_scenarios(self):
        """Written by: virtrain schema > scenarios/virtrain.schema.json"""
        self.assertEqual(json.loads((SOURCE / "scenarios/virtrain.schema.json").read_text()), SCHEMA)
        for scenario in sorted((SOURCE / "scenarios").glob("*.yaml")):
            self.assertEqual(scenario.read_text().split("\n", 1)[0], "# yaml-language-server: $schema=virtrain.schema.json", scenario.name)

    def test_is_itself_valid(self):
        jsonschema.Draft7Validator.check_schema(SCHEMA)

    def test_every_key_is_described(self):
        def keys(schema, path):
            for name, one in schema.get("properties", {}).items():
                self.assertGreater(len(one.get("description", "")), 5, f"{path}.{name}")
                yield f"{path}.{name}"
                yield from keys(one, f"{path}.{name}")
                yield from keys(one.get("items", {}), f"{path}.{name}[]")

        found = list(keys(SCHEMA, ""))
        self.assertGreaterEqual(len(found), 80)
        self.assertIn(".cases[].tenants[].workload.batch_size", found)
        self.assertEqual(SCHEMA["properties"]["workload"]["properties"]["precision"]["default"], "fp32")

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
