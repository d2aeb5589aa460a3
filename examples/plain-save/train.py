"""An ordinary PyTorch script that saves with torch.save and goes on from its own newest file.

Nothing in it knows Shoal: under torchrun it runs the same. Every rank trains on its part of the samples; rank 0 writes
checkpoints/epoch_00001.pt and so on, and keeps the newest three.

    torchrun --nproc-per-node 2 train.py --epochs 20
"""

import argparse
import glob
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def newest(directory):
    files = sorted(glob.glob(os.path.join(directory, "epoch_*.pt")))
    return files[-1] if files else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of waiting in each epoch")
    parser.add_argument("--directory", default="checkpoints")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    samples = torch.randn(256, 16, generator=torch.Generator().manual_seed(2))
    wanted = samples @ torch.randn(16, 1, generator=torch.Generator().manual_seed(3))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    first = 1
    path = newest(arguments.directory)
    if path is not None:
        state = torch.load(path)
        model.module.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        first = state["epoch"] + 1
        print(f"rank {rank} goes on from {path}", flush=True)
    else:
        print(f"rank {rank} of {size} begins", flush=True)
    dist.barrier()

    for epoch in range(first, arguments.epochs + 1):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(model(samples[rank::size]), wanted[rank::size])
        loss.backward()
        optimiser.step()
        time.sleep(arguments.pause)
        if rank == 0:
            os.makedirs(arguments.directory, exist_ok=True)
            state = {"epoch": epoch, "model": model.module.state_dict(), "optimiser": optimiser.state_dict()}
            torch.save(state, os.path.join(arguments.directory, f"epoch_{epoch:05}.pt"))
            for old in sorted(glob.glob(os.path.join(arguments.directory, "epoch_*.pt")))[:-3]:
                os.remove(old)
            print(f"epoch {epoch} loss {loss.item():.6f}", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
