"""What this machine is: its GPU, and where PyTorch's wheels keep NVIDIA's libraries."""
import ctypes
import datetime
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def first_gpu():
    """{"name", "capability": "9.0", "driver"} of CUDA's first GPU, which is built for; None without one. nvidia-smi lists
    them by their place on the bus and ignores CUDA_VISIBLE_DEVICES, but knows the driver's version."""
    listed = gpu_of_nvidia_smi()
    try:
        gpu = gpu_of_driver(ctypes.CDLL("libcuda.so.1"))
    except OSError:
        return listed
    return {**gpu, "driver": listed["driver"]} if gpu and listed else gpu


def gpu_of_nvidia_smi():
    """The first that it lists; None where it lists none: a container may lack it."""
    try:
        answer = subprocess.run(["nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"],
                                capture_output=True, text=True, timeout=60, check=True).stdout
        name, capability, driver = [field.strip() for field in answer.splitlines()[0].split(",")]
        return {"name": name, "capability": capability, "driver": driver}
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return None


def gpu_of_driver(driver):
    """CUDA's first, by the driver's library."""
    name, value = ctypes.create_string_buffer(96), ctypes.c_int()

    def attribute(number):
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, 0)
        return value.value

    if driver.cuInit(0) or driver.cuDeviceGetName(name, len(name), 0):
        return None
    capability = f"{attribute(75)}.{attribute(76)}"  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
    driver.cuDriverGetVersion(ctypes.byref(value))
    return {"name": name.value.decode(), "capability": capability,
            "driver": f"for CUDA {value.value // 1000}.{value.value % 1000 // 10}"}


def why_no_gpu():
    """The driver library's own answer."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"the driver's library cannot be loaded ({error})"
    status = driver.cuInit(0)
    return f"CUDA says {status} at its start" if status else "its first device cannot be asked"


def wheel_folders():
    """Folders of NVIDIA's libraries that pip has installed beside PyTorch, by name: "cudnn", "nccl", and "cu13" (or
    "cu12"), where the toolkit's own are. Found without importing PyTorch, which takes seconds."""
    spec = importlib.util.find_spec("nvidia")
    found = {}
    for base in (spec.submodule_search_locations or []) if spec else []:
        for name in ("cudnn", "nccl", "cu13", "cu12"):
            folder = os.path.join(base, name)
            if os.path.isdir(os.path.join(folder, "include")):
                found.setdefault(name, folder)
    return found


def has_torch():
    return importlib.util.find_spec("torch") is not None


def library_path():
    """LD_LIBRARY_PATH for a program that loads NCCL and cuBLAS at run time: the wheels' folders, where it would not look by
    itself, before what is set already, which may be the only way to the driver."""
    found = wheel_folders()
    folders = [os.path.join(found[name], "lib") for name in ("nccl", "cu13", "cu12") if name in found]
    words = [*filter(os.path.isdir, folders), os.environ.get("LD_LIBRARY_PATH")]
    return os.pathsep.join(filter(None, words))  # an empty entry would be the current folder


def give_home():
    """PyPI's Open MPI, its compiler like its mpirun, does not start without HOME, which a bare machine may lack."""
    if not os.environ.get("HOME"):
        os.environ.pop("HOME", None)
        home = os.path.expanduser("~")
        os.environ["HOME"] = home if os.path.isdir(home) else tempfile.gettempdir()


def commit():
    """What git says of this tree; VIRTRAIN_COMMIT of a copy that travelled without .git, or where there is no git."""
    said = ""
    if os.path.exists(os.path.join(ROOT, ".git")):  # git would look for one further up
        try:
            said = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True,
                                  check=False).stdout.strip()
        except OSError:
            pass
    return said or os.environ.get("VIRTRAIN_COMMIT") or "unknown"


def describe(gpu):
    day = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return (f"# virtrain on {gpu['name']}\n\n{day}, commit {commit()}, driver {gpu['driver']}, compute capability "
            f"{gpu['capability']}, {platform.system()} {platform.release()}, {os.cpu_count()} CPUs, {sys.executable} "
            f"{'with' if has_torch() else 'without'} PyTorch")
