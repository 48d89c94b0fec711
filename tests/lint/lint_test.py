#!/usr/bin/python3
"""lint_test.py format | tidy BUILD | headers BUILD

format   clang-format over every tracked C++ file.
tidy     clang-tidy over the sources changed since the merge base with origin/main; in a clone that has nothing else, over
         those of the last commit. At most 8 files; VIRTRAIN_TIDY_ALL=1 looks at all of them.
headers  every header compiles when it is the only thing that is included; of those changed, likewise.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MOST_FILES = 8
JOBS = 2
SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def git(*arguments):
    # root may test a clone of somebody else's
    command = ["git", "-c", f"safe.directory={SOURCE}", "-C", str(SOURCE), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.split("\n")[:-1] if result.returncode == 0 else None


def tracked(*endings):
    files = git("ls-files")
    if files is None:
        skip("not a git checkout")
    return [f for f in files if f.endswith(endings) and (SOURCE / f).exists()]


def changed():
    """Files changed here, and in words since when."""
    base = git("merge-base", "origin/main", "HEAD")
    head = git("rev-parse", "HEAD")
    if base and base != head:
        return git("diff", "--name-only", base[0]), f"the merge base {base[0][:12]}"
    # The first commit of a clone has no parent: then everything is new.
    last = git("diff", "--name-only", "HEAD~1")
    return (tracked(".cpp", ".h"), "ever") if last is None else (last, "the last commit's parent")


def tool(name):
    return shutil.which(name) or skip(f"{name} is not installed (apt-get install {name})")


def chosen(candidates):
    """The candidates that are looked at, and says so."""
    if os.environ.get("VIRTRAIN_TIDY_ALL") == "1":
        return candidates
    files, since = changed()
    picked = [f for f in candidates if f in set(files)]
    print(f"changed since {since}: {len(picked)} of {len(candidates)} files")
    if len(picked) > MOST_FILES:
        print("left out (VIRTRAIN_TIDY_ALL=1 looks at all): " + " ".join(picked[MOST_FILES:]))
    return picked[:MOST_FILES]


def run_all(commands):
    """Runs them side by side; exits with 1 if any fails, after its words."""
    failed = False

    def run(command):
        return command, subprocess.run(command, capture_output=True, text=True, check=False, cwd=SOURCE)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for command, result in pool.map(run, commands):
            if result.returncode != 0:
                failed = True
                print(f"--- {shlex.join(command)}\n{result.stdout}{result.stderr}")
    sys.exit(1 if failed else 0)


def check_format():
    program = tool("clang-format-16")
    files = tracked(".cpp", ".h", ".cu", ".cuh")
    print(f"{len(files)} files")
    run_all([[program, "--dry-run", "-Werror", *files[i::JOBS]] for i in range(JOBS)])


def file_by_file(entry):
    """A unity build compiles sources together, from a file that includes them: an entry for each."""
    if "/Unity/unity_" not in entry["file"]:
        return [entry]
    together = pathlib.Path(entry["file"]).read_text(encoding="utf-8")
    sources = re.findall(r'^#include "([^"]+)"', together, re.MULTILINE)
    return [{**entry, "file": s, "command": entry["command"].replace(entry["file"], s)} for s in sources]


def compile_commands(build):
    read = json.loads((pathlib.Path(build) / "compile_commands.json").read_text(encoding="utf-8"))
    database = [one for entry in read for one in file_by_file(entry)]
    for entry in database:  # g++'s precompiled headers are not clang's, and hide what a file does not include
        entry["command"] = re.sub(r" -Winvalid-pch -include \S+/cmake_pch\.hxx", "", entry["command"])
    # What nvcc compiles, neither clang-tidy nor a C++ compiler takes.
    return {os.path.relpath(e["file"], SOURCE): e for e in database if not e["file"].endswith(".cu")}


def check_tidy(build):
    program = tool("clang-tidy-14")
    known = compile_commands(build)
    files = chosen([f for f in tracked(".cpp") if f in known])
    print("looked at: " + " ".join(files))
    options = ["--quiet", "--extra-arg=-Wno-unknown-warning-option"]
    # clang 14's analyzer does not understand coroutines and sees undefined values in Asio's.
    coroutines = {file: "co_await" in (SOURCE / file).read_text(encoding="utf-8") for file in files}
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps(list(known.values())), encoding="utf-8")
        checks = {file: ["--checks=-clang-analyzer-*"] if coroutines[file] else [] for file in files}
        run_all([[program, "-p", folder, *options, *checks[file], file] for file in files])


def includers(known):
    """Header -> a source of ours that includes it by its path from the root."""
    found = {}
    for source in known:
        for header in re.findall(r'^#include "([^"]+)"', (SOURCE / source).read_text(encoding="utf-8"), re.MULTILINE):
            found.setdefault(header, source)
    return found


def check_headers(build):
    known = compile_commands(build)
    included_by = includers(known)
    candidates = {}
    for header in tracked(".h"):
        beside = header[: -len(".h")] + ".cpp"
        folder = os.path.dirname(header)
        # Compiled as its source is; a header without one, as a file that includes it, or as any of its folder.
        in_folder = next((f for f in known if os.path.dirname(f) == folder), None)
        like = beside if beside in known else included_by.get(header, in_folder)
        if like:
            candidates[header] = known[like]
    commands = []
    for header in chosen(list(candidates)):
        words = shlex.split(candidates[header]["command"])
        # A launcher such as ccache may stand before the compiler.
        words = words[next(i for i, word in enumerate(words) if re.search(r"\+\+|clang", word.split("/")[-1])) :]
        takes_file = ("-c", "-o", "-MT", "-MF")
        flags = [w for i, w in enumerate(words[1:], 1) if w not in (*takes_file, "-MD") and words[i - 1] not in takes_file]
        commands.append([words[0], *flags, f"-I{SOURCE}", "-fsyntax-only", "-x", "c++", "/dev/null", "-include", header])
    print("looked at: " + " ".join(command[-1] for command in commands))
    run_all(commands)


def main():
    if len(sys.argv) == 2 and sys.argv[1] == "format":
        check_format()
    elif len(sys.argv) == 3 and sys.argv[1] == "tidy":
        check_tidy(sys.argv[2])
    elif len(sys.argv) == 3 and sys.argv[1] == "headers":
        check_headers(sys.argv[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
