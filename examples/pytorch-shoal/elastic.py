"""`plain.py` as an elastic program: its ranks may come and go, and the others train on in their processes.

usage: shoal submit elastic.yaml
       python3 elastic.py            outside Shoal, on one rank
"""

import argparse

import shoal
import torch
from torch import nn

import parts

parser = argparse.ArgumentParser()
parser.add_argument("--net", choices=["mlp", "cnn", "gpt"], default="mlp")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--batch", type=int, default=64, help="samples in a step, of all ranks together")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=50, help="steps")
arguments = parser.parse_args()

run = shoal.init(elastic=True)
torch.manual_seed(1)
torch.set_num_threads(1)
net, samples = parts.build(run.hparam("net", arguments.net), run.hparam("width", arguments.width))
model = shoal.torch.DistributedDataParallel(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=run.hparam("lr", arguments.lr))
loader = torch.utils.data.DataLoader(range(len(samples)), arguments.batch, drop_last=True,
                                     collate_fn=lambda chosen: samples[torch.tensor(chosen)])


def order(epoch):
    """As in `parts.batches`."""
    return torch.randperm(len(samples), generator=torch.Generator().manual_seed(epoch))


run.carry(model=net, optimizer=optimizer)
for epoch in run.epochs(-(-arguments.steps // len(loader))):
    for inputs, targets in run.batches(loader, order=order):
        if run.step >= arguments.steps:
            break
        with run.step():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            if run.rank == 0:
                print(f"step {run.step + 1} loss {loss.item():.9g}", flush=True)
                run.report({"loss": loss}, step=run.step + 1)
                if run.step + 1 == arguments.steps:
                    run.report({"loss": loss}, step=arguments.steps, group="validation")
        if run.step % arguments.save_every == 0:
            run.save()
