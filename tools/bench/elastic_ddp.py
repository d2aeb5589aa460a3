"""The peer of tools/bench/elastic: DistributedDataParallel over gloo, made to be restarted by torch.distributed.run, on the same
network and batch. A checkpoint every CHECKPOINT_EVERY steps, and a line per step into a file of its own: microseconds of the
monotonic clock, process id, count of processes, step.

usage (by torch.distributed.run): elastic_ddp.py DIRECTORY TIMEOUT_S"""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT_EVERY = 100
BATCH = 128
STEPS = 1_000_000  # it is ended before


def main():
    directory, timeout_s = Path(sys.argv[1]), float(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout_s))
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    checkpoint, begin = directory / "checkpoint", 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        network.load_state_dict(saved["network"])
        optimiser.load_state_dict(saved["optimiser"])
        begin = saved["step"]
    model = DistributedDataParallel(network)
    inputs, labels = torch.randn(BATCH // size, 784), torch.randint(10, (BATCH // size,))
    log = os.open(directory / f"steps.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for step in range(begin + 1, STEPS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
        os.write(log, f"{time.monotonic_ns() // 1000} {os.getpid()} {size} {step}\n".encode())
        if step % CHECKPOINT_EVERY == 0 and rank == 0:
            torch.save({"network": network.state_dict(), "optimiser": optimiser.state_dict(), "step": step},
                       directory / "checkpoint.new")
            os.rename(directory / "checkpoint.new", checkpoint)


main()
