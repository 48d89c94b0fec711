#!/usr/bin/env python3
"""PyTorch's training step on the GPU, in one process that is told when to run: ours and it take turns.

Standard input: "steps N SECONDS" (warm up for SECONDS, then N steps: {"seconds", "loss", "peak_bytes"}), "copy"
({"bytes_per_second"}: read and written bytes of a device copy). Ends with its input.
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "reference"))
from resnet50_reference import ResNet50  # noqa: E402

AUTOCAST = {"fp16": torch.float16, "bf16": torch.bfloat16}
LOSS_SCALE = 128.0


def answer(**fields):
    print(json.dumps(fields), flush=True)


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
        self.scale = self.loss_scale() if self.precision == "fp16" else 1.0
        modes = {"compile": None, "compile-graphs": "reduce-overhead"}
        self.forward = self.model
        if arguments.variant in modes:
            self.forward = torch.compile(self.model, mode=modes[arguments.variant])
        self.loss = None
        self.graph = self.capture() if arguments.variant == "graph" else None

    def loss_scale(self):
        """A fixed one, so that no step waits for the host, as ours does not. The fused update divides by it, as it does
        for GradScaler, whose search for overflows PyTorch is spared here."""
        self.optimizer.grad_scale = torch.full((), LOSS_SCALE, device="cuda")
        self.optimizer.found_inf = torch.zeros((), device="cuda")
        return LOSS_SCALE

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


def steps(step, count, warmup_seconds):
    for _ in range(5):  # the first of all compiles, which warms up no GPU
        step.run()
    torch.cuda.synchronize()
    end = time.monotonic() + warmup_seconds
    while time.monotonic() < end:
        for _ in range(5):
            step.run()
        torch.cuda.synchronize()
    windows = []
    for begin in range(0, count, 10):
        in_window = min(10, count - begin)
        start = time.monotonic()
        for _ in range(in_window):
            step.run()
        torch.cuda.synchronize()
        windows.append((time.monotonic() - start) / in_window)
    answer(seconds=statistics.median(windows), loss=step.loss.item(), peak_bytes=torch.cuda.max_memory_allocated())


def copy():
    source = torch.empty(2 << 30, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(10):
            target.copy_(source)
        end.record()
        end.synchronize()
        best = max(best, 10 * 2 * source.numel() / (begin.elapsed_time(end) / 1e3))
    answer(bytes_per_second=best)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=["none", "eager", "graph", "compile", "compile-graphs"], default="eager")
    parser.add_argument("--precision", choices=["fp16", "bf16", "tf32", "fp32"], default="bf16")
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--image_size", type=int, default=224)
    arguments = parser.parse_args()
    step = Step(arguments) if arguments.variant != "none" else None
    answer(version=torch.__version__, cudnn=torch.backends.cudnn.version())
    for line in sys.stdin:
        words = line.split()
        if words[0] == "copy":
            copy()
        else:
            steps(step, int(words[1]), float(words[2]))


if __name__ == "__main__":
    main()
