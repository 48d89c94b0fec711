#!/usr/bin/python3
"""machine_code_test.py CUOBJDUMP LIBRARY: our kernels' machine code for sm_90, disassembled.

A kernel that is bound by memory must have several loads under way before it uses the first (Little's law: an H200 wants
3 MB under way), must not spill registers, and must leave room for enough blocks on a multiprocessor. No GPU is needed.
"""

import os
import re
import subprocess
import sys
import unittest

CUOBJDUMP, LIBRARY = sys.argv[1:]
# What a kernel's name holds: most registers a thread, least loads under way, of rows (16 bytes, and the bytes of their
# masks) and of partial sums (4 bytes).
KERNELS = {
    r"sum_rows_kernel.*ForwardValues": (64, 4, 32),
    r"sum_rows_kernel.*\dBackwardValues": (80, 4, 32),
    r"sum_rows_kernel.*PooledBackwardValues": (128, 8, 32),
    r"\d+rows_kernel(?!.*Pooled)": (80, 4, 0),
    r"\d+rows_kernel.*PooledBackwardApply.*(__half|bfloat16)": (128, 8, 0),
    r"\d+rows_kernel.*PooledBackwardApplyIf": (160, 8, 0),
    r"norm_max_pool_kernel": (112, 9, 0),
    r"sgd_kernel": (48, 5, 0),
    r"find_overflow_kernel": (40, 4, 0),
    r"add_kernel": (64, 4, 0),
    r"accumulate_kernel": (48, 4, 0),
    r"convert_kernel": (48, 4, 0),
}
WIDTHS = {"128": 4, "64": 2}


def is_of_rows(parts):
    return bool({"128", "64", "U8"} & set(parts))


def registers(text):
    return {int(n) for n in re.findall(r"\bR(\d+)\b", text)}


def loads_under_way(instructions, counts=lambda parts: True):
    """The most global loads that are issued before one of them is used, in the order of the code; those whose opcode's parts
    count. A branch begins anew."""
    most, pending, count = 0, set(), 0
    for text in instructions:
        words = re.sub(r"^(@!?U?P\w+\s+)?", "", text)
        opcode, _, operands = words.partition(" ")
        target, _, sources = operands.partition(",")
        if opcode.startswith("LDG"):
            if registers(sources) & pending:
                most, pending, count = max(most, count), set(), 0
            first = min(registers(target), default=None)
            parts = opcode.split(".")
            width = next((w for name, w in WIDTHS.items() if name in parts), 1)
            if first is not None:
                pending |= set(range(first, first + width))
                count += counts(parts)
            continue
        used = registers(operands if opcode.startswith("ST") else sources)
        if opcode in ("BRA", "EXIT", "BSYNC", "BAR.SYNC.DEFER_BLOCKING") or used & pending:
            most, pending, count = max(most, count), set(), 0
    return max(most, count)


def disassembled(library):
    """{name: (registers, bytes of stack, [instructions])}"""
    def run(*flags):
        # cuobjdump starts nvdisasm by name.
        path = os.path.dirname(CUOBJDUMP) + os.pathsep + os.environ.get("PATH", "")
        command = [CUOBJDUMP, *flags, "-arch", "sm_90", library]
        return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PATH": path}).stdout

    usage = dict(re.findall(r"Function (\S+):\s+(REG:\d+ STACK:\d+)", run("-res-usage")))
    code, name = {}, None
    for line in run("-sass").splitlines():
        if match := re.match(r"\s*Function : (\S+)", line):
            name = match.group(1)
            code[name] = []
        elif name and (match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line)):
            code[name].append(match.group(1))
    return {name: (*map(int, re.findall(r"\d+", usage[name])), lines) for name, lines in code.items() if name in usage}


class MachineCode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernels = disassembled(LIBRARY)

    def test_kernels_bound_by_memory(self):
        for pattern, (most_registers, of_rows, of_sums) in KERNELS.items():
            found = {name: kernel for name, kernel in self.kernels.items() if re.search(pattern, name)}
            self.assertTrue(found, pattern)
            for name, (used, stack, lines) in found.items():
                with self.subTest(kernel=name):
                    self.assertLessEqual(used, most_registers)
                    self.assertEqual(stack, 0)
                    self.assertFalse([line for line in lines if re.search(r"\b(STL|LDL)\b", line)], "spills")
                    self.assertGreaterEqual(loads_under_way(lines, is_of_rows), of_rows)
                    self.assertGreaterEqual(loads_under_way(lines, lambda parts: not is_of_rows(parts)), of_sums)

    def test_planted_code(self):
        together = [f"LDG.E.128 R{4 * i}, desc[UR4][R40.64]" for i in range(4)] + ["FADD R30, R0, R4"]
        self.assertEqual((loads_under_way(together), loads_under_way(together, is_of_rows)), (4, 4))
        self.assertEqual(loads_under_way([line.replace(".128", "") for line in together], is_of_rows), 0)
        one_by_one = [line for i in range(4) for line in (f"LDG.E.128 R{4 * i}, desc[UR4][R40.64]", f"FADD R30, R30, R{4 * i + 3}")]
        self.assertEqual(loads_under_way(one_by_one), 1)


if __name__ == "__main__":
    if not os.access(CUOBJDUMP, os.X_OK):
        print("skipped: no cuobjdump (a CUDA toolkit has it, and scripts/setup --all fetches it)")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
