#!/usr/bin/python3
"""One PyTorch process of tools/bench/mlp: trains 784-512-256-10 on the images of MNIST's files, with one thread.

usage: mlp_torch.py alone|ddp RANK SIZE STORE DATA BATCH EPOCHS

`alone` trains each process for itself; `ddp` wraps the model in DistributedDataParallel over gloo. Either way the processes meet
by a new file STORE, and begin each epoch together. Every rank takes its BATCH of each step out of a set that lies in memory as float32, in the order of
the epoch, so that no loading of data is timed. Prints one JSON line: the samples of this process per second, of each
epoch, and the mean loss of the last one."""

import gzip
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

FEATURES, HIDDEN, CLASSES = 784, (512, 256), 10
MEAN, DEVIATION = 0.2860, 0.3530
HELD_OUT = 5000  # the validation set of shoal-train


def read_idx(directory, name, head):
    """The bytes behind the head of an IDX file, packed or not."""
    packed = Path(directory) / (name + ".gz")
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else (Path(directory) / name).read_bytes()
    return torch.frombuffer(bytearray(data[head:]), dtype=torch.uint8)


def training_set(directory):
    images = read_idx(directory, "train-images-idx3-ubyte", 16).view(-1, FEATURES)[:-HELD_OUT]
    labels = read_idx(directory, "train-labels-idx1-ubyte", 8)[:-HELD_OUT].long()
    return (images.float() / 255 - MEAN) / DEVIATION, labels


def make_model():
    widths = (FEATURES, *HIDDEN)
    layers = []
    for i in range(len(HIDDEN)):
        layers += [torch.nn.Linear(widths[i], widths[i + 1]), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], CLASSES))


def main():
    how, store, directory = sys.argv[1], sys.argv[4], sys.argv[5]
    rank, size, batch, epochs = (int(sys.argv[i]) for i in (2, 3, 6, 7))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    inputs, labels = training_set(directory)
    model = make_model()
    if how == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    rates, loss_sum = [], 0.0
    steps = len(inputs) // (batch * size)
    for _ in range(epochs):
        order = torch.randperm(len(inputs))
        epoch_inputs, epoch_labels, losses = inputs[order], labels[order], []
        dist.barrier()
        began = time.perf_counter()
        for step in range(steps):
            start = (step * size + rank) * batch
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(epoch_inputs[start:start + batch]), epoch_labels[start:start + batch])
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        rates.append(steps * batch / (time.perf_counter() - began))
        loss_sum = float(sum(losses))
    print(json.dumps({"rates": rates, "loss": loss_sum / steps}))


main()
