"""Plain PyTorch: DistributedDataParallel, nothing of Shoal. Runs under torchrun, and unchanged under Shoal.

usage: torchrun --nproc-per-node 2 plain.py --net mlp
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import parts

parser = argparse.ArgumentParser()
parser.add_argument("--net", choices=["mlp", "cnn", "gpt"], default="mlp")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--batch", type=int, default=64, help="samples in a step, of all ranks together")
parser.add_argument("--steps", type=int, default=100)
arguments = parser.parse_args()

dist.init_process_group("gloo")
torch.manual_seed(1)
torch.set_num_threads(1)
rank, ranks = dist.get_rank(), dist.get_world_size()
net, samples = parts.build(arguments.net, arguments.width)
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=arguments.lr)
for step, inputs, targets in parts.batches(samples, arguments.batch, rank, ranks, 0, arguments.steps):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(f"step {step + 1} loss {loss.item():.9g}", flush=True)
dist.barrier()
dist.destroy_process_group()
