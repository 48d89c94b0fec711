#!/usr/bin/python3
"""machine_code_test.py CUOBJDUMP LIBRARY: the kernels that fill and search registers, disassembled. The compiler must keep a register
of its own for each value, or a search would look at one register again and again; no GPU is needed."""

import os
import re
import subprocess
import sys

CUOBJDUMP, LIBRARY = sys.argv[1:]
WORDS = 110  # register_words, workloads/canary/kernels.h


def main():
    if not os.access(CUOBJDUMP, os.X_OK):
        print("skipped: no cuobjdump (a CUDA toolkit has it, and scripts/setup --all fetches it)")
        return 77
    # It starts nvdisasm by name.
    path = os.path.dirname(CUOBJDUMP) + os.pathsep + os.environ.get("PATH", "")
    code = subprocess.run([CUOBJDUMP, "-sass", "-arch", "sm_90", LIBRARY], capture_output=True, text=True, check=True, env={**os.environ, "PATH": path}).stdout
    kernels = {name: body for name, body in re.findall(r"Function : \w*?((?:fill|find)_registers)_kernel\w*\n(.*?)(?=Function :|\Z)", code, re.S)}
    assert kernels.keys() == {"fill_registers", "find_registers"}, kernels.keys()
    loads = {name: re.findall(r"(@!?U?P\d+ )?LDG\.E\.64\S* R(\d+),", body) for name, body in kernels.items()}
    for name, found in loads.items():
        assert len({register for _, register in found}) == WORDS, (name, len(found), found)
    # Where a search loaded anything, it would overwrite what it looks for.
    assert all(predicate for predicate, _ in loads["find_registers"]), loads["find_registers"]
    assert not any(predicate for predicate, _ in loads["fill_registers"]), loads["fill_registers"]
    return 0


sys.exit(main())
