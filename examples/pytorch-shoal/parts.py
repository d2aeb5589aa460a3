"""Data, networks and batches of `plain.py` and `train.py`."""

import gzip
import os
import subprocess

import torch
from torch import nn

CONTEXT = 64  # characters that the GPT sees
DATA = "/usr/share/datasets/fashion-mnist"


def read_idx(directory, name, header_bytes):
    with gzip.open(os.path.join(directory, name)) as file:
        return torch.frombuffer(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)


def fashion(directory, part="train"):
    """Fashion-MNIST (Debian's dataset-fashion-mnist): images [60000, 784] float32, labels [60000] int64; of the part "t10k",
    which is for the test, 10000."""
    images = read_idx(directory, f"{part}-images-idx3-ubyte.gz", 16).view(-1, 784)
    return (images.float() / 255 - 0.286) / 0.353, read_idx(directory, f"{part}-labels-idx1-ubyte.gz", 8).long()


def bible(file):
    """Characters [count] int64 of `file`, or of the text in Debian's bible-kjv; the second result is how many different ones."""
    if file:
        with open(file, "rb") as text:
            data = text.read()
    else:
        data = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True).stdout
    characters = torch.frombuffer(bytearray(data), dtype=torch.uint8).long()
    _, numbers = characters.unique(return_inverse=True)
    return numbers, int(numbers.max()) + 1


class Windows:
    """Every place of a text: (characters [CONTEXT], the ones behind each of them [CONTEXT])."""

    def __init__(self, characters):
        self.characters = characters

    def __len__(self):
        return len(self.characters) - CONTEXT

    def __getitem__(self, chosen):
        at = chosen[:, None] + torch.arange(CONTEXT + 1)
        return self.characters[at][:, :-1], self.characters[at][:, 1:]


class Pairs:
    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, chosen):
        return self.inputs[chosen], self.targets[chosen]


def accuracy(net, samples):
    """The part of the images that the network classifies rightly."""
    with torch.no_grad():
        pieces = torch.arange(len(samples)).split(500)
        right = sum((net(images).argmax(1) == labels).sum().item() for images, labels in (samples[piece] for piece in pieces))
    return right / len(samples)


def mlp(width):
    return nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))


def cnn(width):
    return nn.Sequential(  # channels last: its pooling and its gradients are faster on processors
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, width // 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width // 8, width // 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(width // 4 * 49, 10)).to(memory_format=torch.channels_last)


class Gpt(nn.Module):
    """A character model: one layer of masked self-attention and a perceptron, pre-norm."""

    def __init__(self, width, characters):
        super().__init__()
        self.embed = nn.Embedding(characters, width)
        self.place = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, characters)

    def forward(self, x):
        h = self.embed(x) + self.place
        q, k, v = (part.unflatten(2, (4, -1)).transpose(1, 2) for part in self.qkv(self.norms[0](h)).chunk(3, 2))
        weights = (q @ k.transpose(2, 3)) / q.shape[3] ** 0.5
        weights = weights.masked_fill(torch.ones(CONTEXT, CONTEXT).triu(1).bool(), float("-inf")).softmax(3)
        h = h + self.mix((weights @ v).transpose(1, 2).flatten(2))
        h = h + self.perceptron(self.norms[1](h))
        return self.head(self.norms[2](h)).transpose(1, 2)  # [batch, characters, CONTEXT], as cross_entropy wants it


def build(net, width, data=DATA, text=None):
    """The network, and samples that are chosen by a tensor of numbers."""
    if net == "gpt":
        characters, count = bible(text)
        return Gpt(width, count), Windows(characters)
    return {"mlp": mlp, "cnn": cnn}[net](width), Pairs(*fashion(data))


def batches(samples, size, rank, ranks, first_step, steps):
    """(step, inputs, targets) of this rank from `first_step` on. `size`: samples of all ranks in a step. An epoch's order is drawn
    from its number, so a program that goes on at a step sees what it would have seen."""
    a_rank = size // ranks
    an_epoch = len(samples) // size
    order, drawn = None, None
    for step in range(first_step, steps):
        epoch, at = divmod(step, an_epoch)
        if epoch != drawn:
            order, drawn = torch.randperm(len(samples), generator=torch.Generator().manual_seed(epoch)), epoch
        begin = at * size + rank * a_rank
        yield (step, *samples[order[begin:begin + a_rank]])
