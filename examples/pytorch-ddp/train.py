"""An ordinary PyTorch DistributedDataParallel script: a small network on Fashion-MNIST, gloo between the processes.

Nothing in it knows Shoal. It takes RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from the environment, as under torchrun.
"""

import argparse
import gzip
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def read_idx(directory, name, header_bytes):
    with gzip.open(os.path.join(directory, name)) as file:
        return torch.frombuffer(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)


def read_pair(directory, prefix):
    images = read_idx(directory, f"{prefix}-images-idx3-ubyte.gz", 16).view(-1, 784)
    labels = read_idx(directory, f"{prefix}-labels-idx1-ubyte.gz", 8).long()
    return (images.float() / 255 - 0.286) / 0.353, labels


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in zip(images.split(1000), labels.split(1000)))
    model.train()
    return right / len(labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128, help="samples per step, of all processes together")
    parser.add_argument("--rate", type=float, default=0.05)
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    images, labels = read_pair(arguments.data, "train")
    test_images, test_labels = read_pair(arguments.data, "t10k")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimiser = torch.optim.SGD(model.parameters(), lr=arguments.rate, momentum=0.9)
    per_process = arguments.batch // size
    print(f"rank {rank} of {size} begins", flush=True)
    for epoch in range(arguments.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))[rank::size]
        order = order[: len(images) // size // per_process * per_process]  # every process makes the same number of steps
        for chosen in order.split(per_process):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
            loss.backward()
            optimiser.step()
        if rank == 0:
            print(f"epoch {epoch + 1} loss {loss.item():.4f} test accuracy "
                  f"{accuracy(model.module, test_images, test_labels):.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
