#!/usr/bin/env python3
"""How fast PyTorch trains on the GPU: prints one JSON object."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "reference"))
from resnet50_reference import ResNet50  # noqa: E402

AUTOCAST = {"fp16": torch.float16, "bf16": torch.bfloat16}
LOSS_SCALE = 128.0


class Step:
    """channels_last and autocast always; variants: eager, graph (the whole step captured), compile, compile-graphs."""

    def __init__(self, arguments):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.precision == "tf32"
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(1)
        self.model = ResNet50().cuda().to(memory_format=torch.channels_last).train()
        size = arguments.image_size
        # In the type that the first convolution reads, as ours are: autocast would convert them in each step.
        self.images = torch.randn(arguments.batch_size, 3, size, size, device="cuda").to(
            AUTOCAST.get(arguments.precision, torch.float32), memory_format=torch.channels_last)
        self.labels = torch.randint(0, 1000, (arguments.batch_size,), device="cuda")
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4, fused=True)
        self.precision = arguments.precision
        self.scale = 1.0
        if self.precision == "fp16":
            # A fixed one, so that no step waits for the host, as ours does not. The fused update divides by it, as it does
            # for GradScaler, whose search for overflows PyTorch is spared here.
            self.scale = LOSS_SCALE
            self.optimizer.grad_scale = torch.full((), LOSS_SCALE, device="cuda")
            self.optimizer.found_inf = torch.zeros((), device="cuda")
        modes = {"compile": None, "compile-graphs": "reduce-overhead"}
        self.forward = torch.compile(self.model, mode=modes[arguments.variant]) if arguments.variant in modes else self.model
        self.loss = None
        self.graph = self.capture() if arguments.variant == "graph" else None

    def once(self):
        self.optimizer.zero_grad(set_to_none=True)  # while a graph is captured, too: its memory then holds the gradients
        with torch.autocast("cuda", dtype=AUTOCAST.get(self.precision, torch.float16),
                            enabled=self.precision in AUTOCAST):
            loss = nn.functional.cross_entropy(self.forward(self.images).float(), self.labels)
        (loss * self.scale).backward()
        self.optimizer.step()
        self.loss = loss.detach()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.once()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.once()
        return graph

    def run(self):
        if self.graph is None:
            self.once()
        else:
            self.graph.replay()


class Sensors:
    """Means of the GPU's clock and power while it is timed, by nvidia-smi; none where that does not tell."""

    QUERY = {"sm_clock_mhz": "clocks.sm", "power_w": "power.draw"}

    def __init__(self):
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", f"--id={device}", f"--query-gpu={','.join(self.QUERY.values())}", "--format=csv,noheader,nounits",
                 "--loop-ms=200"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.process = None

    def means(self):
        if self.process is None:
            return {}
        self.process.terminate()
        readings = []
        for line in self.process.communicate()[0].splitlines():
            try:
                values = [float(word) for word in line.split(",")]
            except ValueError:
                continue
            if len(values) == len(self.QUERY):
                readings.append(values)
        return {name: statistics.mean(column) for name, column in zip(self.QUERY, zip(*readings))}


def images_per_second(step, arguments):
    """(images per second, what the sensors say): by the median of windows of ten steps, as ours."""
    for _ in range(5):  # the first of all compiles, which warms up no GPU
        step.run()
    torch.cuda.synchronize()
    end = time.monotonic() + arguments.warmup_seconds
    while time.monotonic() < end:
        for _ in range(5):
            step.run()
        torch.cuda.synchronize()
    windows, sensors = [], Sensors()
    for begin in range(0, arguments.steps, 10):
        in_window = min(10, arguments.steps - begin)
        start = time.monotonic()
        for _ in range(in_window):
            step.run()
        torch.cuda.synchronize()
        windows.append(arguments.batch_size * in_window / (time.monotonic() - start))
    return statistics.median(windows), sensors.means()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=["eager", "graph", "compile", "compile-graphs"], required=True)
    parser.add_argument("--precision", choices=["fp16", "bf16", "tf32", "fp32"], required=True)
    for name in ("batch_size", "image_size", "steps", "warmup_seconds"):
        parser.add_argument(f"--{name}", type=int, required=True)
    arguments = parser.parse_args()
    step = Step(arguments)
    speed, sensors = images_per_second(step, arguments)
    print(json.dumps({"images_per_second": speed, **sensors, "loss": step.loss.item(), "peak_bytes": torch.cuda.max_memory_allocated(),
                      "version": torch.__version__, "cudnn": torch.backends.cudnn.version()}))


if __name__ == "__main__":
    main()
