"""A plain DistributedDataParallel script as people write it: nothing in it knows who starts it. Prints its environment, one
variable a line, and the loss of each step with all its digits."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for name, value in sorted(os.environ.items()):
        print(f"ENV {rank} {name}={value}".replace("\n", " "), flush=True)
    print(f"ELASTIC {rank} {dist.is_torchelastic_launched() if hasattr(dist, 'is_torchelastic_launched') else 'unknown'}", flush=True)
    torch.manual_seed(7)
    inputs, labels = torch.randn(512, 20), torch.randint(0, 5, (512,))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 5)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(20):
        chosen = torch.arange(step * 16, step * 16 + 16)[rank::size] % 512
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen])
        loss.backward()
        optimiser.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"LOSS {step} {mean.item() / size!r}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
