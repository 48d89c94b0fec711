#!/usr/bin/env python3
"""Checks one training step of a trainer against PyTorch.

  resnet50_reference.py check DUMP [--precision bf16]      replays the trainer's --dump and judges every gradient
  resnet50_reference.py make OUT DUMP...                   writes the small reference that tests/workloads uses offline

A dump comes from, for example:
  echo go | build/virtrain-resnet50-cpu --image_size 64 --batch_size 8 --num_batches 1 --num_warmup_batches 0 \\
      --residual_gamma 0.1 --seed 7 --dump step.safetensors
scripts/reference/venv runs this file in a throw-away environment with the newest PyTorch.

ResNet-50 at its initialization is ill-conditioned: PyTorch's own fp32 gradients differ from its fp64 ones by 1e-2 and
more. So errors are judged against PyTorch's own, the larger of its two memory formats'.
"""
import argparse
import json
import sys

import numpy as np
import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = width * 4
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet50(nn.Module):
    """ResNet-50 v1.5 with torchvision's names, so that torchvision itself is not needed."""

    def __init__(self, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for number, (blocks, width, stride) in enumerate([(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)], 1):
            layers = []
            for block in range(blocks):
                layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
                inputs = width * 4
            setattr(self, f"layer{number}", nn.Sequential(*layers))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def read_safetensors(path):
    types = {"F32": np.float32, "I64": np.int64}
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(values.copy())
    return tensors


AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def torch_step(dump, precision, channels_last=False, learning_rate=None, device="cpu"):
    """One step in PyTorch from the dump's state: loss, gradients and, with a learning rate, the state after it.
    Precision is "fp64" or one of the trainer's."""
    dtype = torch.float64 if precision == "fp64" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    model = ResNet50(dump["fc.weight"].shape[0])
    model.load_state_dict({name: dump[name] for name in model.state_dict()})
    model = model.to(device, dtype).train()
    images = dump["input"].to(device, dtype)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    with torch.autocast(device, dtype=AUTOCAST.get(precision, torch.bfloat16), enabled=precision in AUTOCAST):
        loss = nn.functional.cross_entropy(model(images).to(torch.promote_types(dtype, torch.float32)),
                                           dump["labels"].to(device))
    scale = 1024.0 if precision == "fp16" else 1.0  # else small gradients are lost on their way
    (loss * scale).backward()
    for parameter in model.parameters():
        parameter.grad /= scale
    gradients = {name: parameter.grad.double().contiguous().cpu() for name, parameter in model.named_parameters()}
    if learning_rate is not None:
        torch.optim.SGD(model.parameters(), learning_rate, momentum=0.9, weight_decay=1e-4).step()
    return loss.item(), gradients, {name: value.double().cpu() for name, value in model.state_dict().items()}


def torch_course(dump, precision, steps, learning_rate, device):
    """The loss in the last of so many steps on the dump's batch, from the dump's state."""
    model = ResNet50(dump["fc.weight"].shape[0])
    model.load_state_dict({name: dump[name] for name in model.state_dict()})
    model = model.to(device, memory_format=torch.channels_last).train()
    images, labels = dump["input"].to(device, memory_format=torch.channels_last), dump["labels"].to(device)
    optimizer = torch.optim.SGD(model.parameters(), learning_rate, momentum=0.9, weight_decay=1e-4)
    scale = 1024.0 if precision == "fp16" else 1.0
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=AUTOCAST.get(precision, torch.bfloat16), enabled=precision in AUTOCAST):
            loss = nn.functional.cross_entropy(model(images).float(), labels)
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad /= scale
        optimizer.step()
    return loss.item()


def distance(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-300)).item()


def reference(dump, precision, learning_rate=None, device="cpu", fp64_device="cpu"):
    """fp64 loss, gradients and state, and PyTorch's own errors against them in the precision that is judged."""
    loss, gradients, after = torch_step(dump, "fp64", learning_rate=learning_rate, device=fp64_device)
    own_loss, own = 0.0, dict.fromkeys(gradients, 0.0)
    for channels_last in (False, True):
        other_loss, other, _ = torch_step(dump, precision, channels_last, device=device)
        own_loss = max(own_loss, abs(other_loss - loss) / abs(loss))
        for name in gradients:
            own[name] = max(own[name], distance(other[name], gradients[name]))
    return loss, gradients, after, own_loss, own


# The rules: share of gradients and bound for most, bound for all, bound for the loss. tf32 rounds factors as fp16 does.
SHORT = (0.9, 2e-2, 1e-1, 1e-2)
# Of the loss after many steps, against PyTorch's: 40 steps of 256 images of 224 px on an H200 end at 5.196 (fp16), 5.226 (bf16), and
# PyTorch's at 5.201 (fp16) and 5.195 (fp32).
COURSE = 2e-2
RULES = {"fp32": (0.9, 1e-3, 5e-2, 1e-4), "tf32": SHORT, "bf16": SHORT, "fp16": SHORT}


def check(path, precision, learning_rate, device, fp64_device, steps=0, loss_after=0.0):
    """`loss_after` is the trainer's in the last of `steps` steps that began as the dump."""
    dump = read_safetensors(path)
    loss, gradients, after, own_loss, own = reference(dump, precision, learning_rate, device, fp64_device)
    share, most, every, loss_bound = RULES[precision]
    failures = []
    error = abs(dump["loss"].item() - loss) / abs(loss)
    print(f"loss: fp64 {loss:.6f}, ours off by {error:.2e}, PyTorch by {own_loss:.2e}")
    if not error <= max(loss_bound, 3 * own_loss):  # a NaN is wrong, too
        failures.append("loss")
    errors = {name: distance(dump["grad." + name], gradients[name]) for name in gradients}
    good = sum(errors[name] <= max(most, 3 * own[name]) for name in errors)
    print(f"gradients: {good} of {len(errors)} within max({most:g}, 3 x PyTorch's own); "
          f"largest error {max(errors.values()):.2e}, PyTorch's {max(own.values()):.2e}; "
          f"median {np.median(list(errors.values())):.2e}, PyTorch's {np.median(list(own.values())):.2e}")
    if good < share * len(errors):
        failures.append("share of gradients")
    failures += [f"{name}: {errors[name]:.2e}, PyTorch {own[name]:.2e}" for name in errors
                 if not errors[name] <= max(every, 3 * own[name])]
    moved = {name: distance(dump["after." + name], after[name]) for name in after if not name.endswith("num_batches_tracked")}
    worst = max((error, name) for name, error in moved.items())
    # What began at 0 is as far off as its gradient; a step that was skipped, or statistics that were, are off by 1.
    failures += [f"{name} after the step: {error:.2e}" for name, error in moved.items()
                 if not error <= max(every, 3 * own.get(name, 0))]
    if steps:
        theirs = torch_course(dump, precision, steps, learning_rate, device)
        print(f"loss in step {steps}: {loss_after:.4f}, PyTorch's {theirs:.4f}")
        if not abs(loss_after - theirs) <= COURSE * theirs:
            failures.append(f"loss in step {steps}")
    print(f"state after the step: largest error {worst[0]:.2e} ({worst[1]})")
    print("FAILED: " + "; ".join(failures[:10]) if failures else "passed")
    return not failures


def mix(counter):
    """SplitMix64 of a counter, as in the trainer."""
    z = (counter + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


PROJECTIONS = 32


def project(values):
    """Sums of the elements with 32 fixed patterns of signs: bit k of mix(i) is the sign of element i in pattern k.
    The mean square of such sums over patterns estimates a squared norm, of a difference as well."""
    values = values.numpy().ravel()
    with np.errstate(over="ignore"):
        words = mix(np.arange(values.size, dtype=np.uint64))
    return [float(np.where((words >> np.uint64(k)) & np.uint64(1), values, -values).sum())
            for k in range(PROJECTIONS)]


def make(out, paths):
    cases = []
    for path in paths:
        dump = read_safetensors(path)
        with open(path + ".json") as file:
            hello, ready = [json.loads(line) for line in file][:2]
        case = {"configuration": {key: hello["configuration"][key] for key in
                                  ("batch_size", "image_size", "seed", "residual_gamma", "num_classes")},
                "parameters_hash": ready["parameters_hash"], "gradients": {}}
        for precision in ("fp32", "bf16") if case["configuration"]["residual_gamma"] < 1 else ("fp32",):
            loss, gradients, _, own_loss, own = reference(dump, precision)
            case["loss"] = loss
            case.setdefault("pytorch_loss_error", {})[precision] = own_loss
            for name, gradient in gradients.items():
                entry = case["gradients"].setdefault(name, {"pytorch_error": {}})
                entry["pytorch_error"][precision] = float(f"{own[name]:.4g}")
                if "norm" not in entry:
                    entry["norm"] = gradient.norm().item()
                    entry["projections"] = [float(f"{p:.9g}") for p in project(gradient)]
        cases.append(case)
    with open(out, "w") as file:
        json.dump({"made_with": f"PyTorch {torch.__version__}", "cases": cases}, file, indent=None)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    checker = verbs.add_parser("check")
    checker.add_argument("dump")
    checker.add_argument("--precision", choices=list(RULES), default="fp32")
    checker.add_argument("--device", choices=["cpu", "cuda"], default="cpu",
                         help="where PyTorch's own error is found; on the CPU tf32 is fp32")
    checker.add_argument("--fp64_device", choices=["cpu", "cuda"], default="cpu",
                         help="where fp64 is found; 256 images of 224 px want some 50 GB, and a CPU takes minutes")
    checker.add_argument("--learning_rate", type=float, default=0.01)
    checker.add_argument("--steps", type=int, default=0, help="also compare the loss after this many steps")
    checker.add_argument("--loss", type=float, default=0.0, help="the trainer's in that step")
    maker = verbs.add_parser("make")
    maker.add_argument("out")
    maker.add_argument("dumps", nargs="+")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    if arguments.verb == "make":
        make(arguments.out, arguments.dumps)
        return 0
    passed = check(arguments.dump, arguments.precision, arguments.learning_rate, arguments.device, arguments.fp64_device,
                   arguments.steps, arguments.loss)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
