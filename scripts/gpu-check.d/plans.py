"""The file in which the trainer keeps the fastest engines. Finding them takes a minute or more for each batch and
precision, so a machine that is lent brings back what it has found, and takes along what is known."""
import os
import shutil

NAME = "cudnn-plans.json"


def file():
    """Where the trainer keeps it (workloads/resnet50/cuda/plan_cache.h)."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "virtrain", NAME)


def copy(source, target):
    """Without it only time is lost, so a copy that fails stops nothing."""
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(source, target)
    except OSError:
        pass


def bring(folder):
    """What was carried, where the trainer has none of its own yet."""
    if folder and not os.path.exists(file()):
        copy(os.path.join(folder, NAME), file())


def keep():
    """For the way back, after each run: any may be the last."""
    if os.environ.get("OUT"):
        copy(file(), os.path.join(os.environ["OUT"], NAME))
