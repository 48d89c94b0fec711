"""What this machine is: its GPU, and where PyTorch's wheels keep NVIDIA's libraries."""
import datetime
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import socket
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def first_gpu():
    """({"name", "capability": "9.0", "driver"} of the GPU that programs take first, None), or (None, why there is none)."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    which = [] if visible.startswith("MIG-") else [f"--id={visible}"]  # nvidia-smi has no query of a slice; its card is one of all
    command = ["nvidia-smi", *which, "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"nvidia-smi: {error}"
    fields = [field.strip() for field in done.stdout.partition("\n")[0].split(",")]
    if done.returncode != 0 or len(fields) != 3:
        return None, f"nvidia-smi: {(done.stdout + done.stderr).strip() or f'exit {done.returncode}'}"
    return dict(zip(("name", "capability", "driver"), fields)), None


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
    """LD_LIBRARY_PATH for a program that loads NCCL and cuBLAS at run time: the wheels' folders, before what is set
    already, which may be the only way to the driver."""
    found = wheel_folders()
    folders = [os.path.join(found[name], "lib") for name in ("nccl", "cu13", "cu12") if name in found]
    words = [*filter(os.path.isdir, folders), os.environ.get("LD_LIBRARY_PATH")]
    return os.pathsep.join(filter(None, words))  # an empty entry would be the current folder


def loopback_is_up():
    """Open MPI starts no rank without it. While it is down its address is not there."""
    try:
        socket.create_server(("127.0.0.1", 0)).close()
    except OSError:
        return False
    return True


def commit():
    if not os.path.exists(os.path.join(ROOT, ".git")) or not shutil.which("git"):  # git would look for one further up
        return "unknown"
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def facts(gpu):
    torch = next(iter(importlib.metadata.distributions(name="torch")), None)
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), "card": gpu["name"],
            "driver": gpu["driver"], "compute capability": gpu["capability"], "commit": commit(),
            "host": f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs",
            "PyTorch": torch.version if torch else "none"}
