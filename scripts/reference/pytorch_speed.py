#!/usr/bin/env python3
"""Trains ResNet-50 in PyTorch on a fixed synthetic batch and prints one JSON object with its images per second."""
import argparse
import json
import os
import statistics
import sys
import time

import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from resnet50_reference import ResNet50  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--num_threads", type=int, default=2)
    parser.add_argument("--num_batches", type=int, default=5)
    parser.add_argument("--num_warmup_batches", type=int, default=2)
    parser.add_argument("--channels_last", action="store_true")
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.num_threads)
    torch.manual_seed(1)
    model = ResNet50().train()
    images = torch.randn(arguments.batch_size, 3, arguments.image_size, arguments.image_size)
    labels = torch.randint(0, 1000, (arguments.batch_size,))
    if arguments.channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    forward = torch.compile(model) if arguments.compile else model
    seconds = []
    for _ in range(arguments.num_warmup_batches + arguments.num_batches):
        start = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = nn.functional.cross_entropy(forward(images).float(), labels)
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.monotonic() - start)
    counted = seconds[arguments.num_warmup_batches:]
    print(json.dumps({"images_per_second": arguments.batch_size / statistics.median(counted),
                      "seconds": counted, "version": torch.__version__}))


if __name__ == "__main__":
    main()
