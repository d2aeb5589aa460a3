"""A network whose training outlives its workers: a killed one costs the others a step, and one that joins goes on with them.

usage: shoal submit elastic.yaml
       python3 train.py              outside Shoal, on one rank
"""

import argparse
import gzip
import os

import shoal
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="directory of Fashion-MNIST (Debian's dataset-fashion-mnist)")
parser.add_argument("--width", type=int, default=512)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--batch", type=int, default=128, help="samples in a step, of all ranks together")
parser.add_argument("--epochs", type=int, default=5)
arguments = parser.parse_args()


def read(part):
    def idx(name, header_bytes):
        with gzip.open(os.path.join(arguments.data, f"{part}-{name}.gz")) as file:
            return torch.frombuffer(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)

    return idx("images-idx3-ubyte", 16).view(-1, 784).float() / 255, idx("labels-idx1-ubyte", 8).long()


torch.set_num_threads(1)
run = shoal.init(elastic=True)
torch.manual_seed(run.seed % 2**63)
net = nn.Sequential(nn.Linear(784, arguments.width), nn.ReLU(), nn.Linear(arguments.width, 10)).to(run.device)
model = shoal.torch.DistributedDataParallel(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=run.hparam("lr", arguments.lr))
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1000, 0.5)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*read("train")), batch_size=arguments.batch, shuffle=True)
images, labels = (part.to(run.device) for part in read("t10k"))

run.carry(model=net, optimizer=optimizer, scheduler=scheduler)
for epoch in run.epochs(arguments.epochs):
    print(f"epoch {epoch + 1} begins at step {run.step}: rank {run.rank} of {run.size}", flush=True)
    for x, y in run.batches(loader):
        with run.step():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x.to(run.device)), y.to(run.device))
            loss.backward()
            optimizer.step()
            scheduler.step()
            if run.rank == 0:  # behind backward(): once for each step that is applied
                run.report({"loss": loss}, step=run.step + 1)
    if run.should_stop():  # the state is saved
        break
    if run.rank == 0:
        with torch.no_grad():
            accuracy = (net(images).argmax(1) == labels).float().mean().item()
        print(f"epoch {epoch + 1}: accuracy {accuracy:.4f}", flush=True)
        run.report({"accuracy": accuracy}, step=run.step, group="validation")
        run.save()
