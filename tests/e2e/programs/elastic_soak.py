"""What tests/e2e/soak_elastic.py --torch trains: a small network on Fashion-MNIST, whose rate falls to nothing at the end.

usage: elastic_soak.py EPOCHS BATCH
"""

import gzip
import sys

import shoal
import torch
from torch import nn

epochs, batch = map(int, sys.argv[1:])
SAVE_EVERY = 500  # steps


def read(part):
    def idx(name, header_bytes):
        with gzip.open(f"/usr/share/datasets/fashion-mnist/{part}-{name}.gz") as file:
            return torch.frombuffer(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)

    return idx("images-idx3-ubyte", 16).view(-1, 784).float() / 255, idx("labels-idx1-ubyte", 8).long()


torch.set_num_threads(1)
run = shoal.init(elastic=True)
torch.manual_seed(run.seed % 2**63)
images, labels = read("train")
net = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
model = shoal.torch.DistributedDataParallel(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
steps = epochs * -(-len(images) // batch)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))
loader = torch.utils.data.DataLoader(range(len(images)), batch_size=batch, shuffle=True, collate_fn=torch.tensor)

run.carry(model=net, optimizer=optimizer, scheduler=scheduler)
for _ in run.epochs(epochs):
    for chosen in run.batches(loader):
        with run.step():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
            scheduler.step()
        if run.step % SAVE_EVERY == 0:
            run.save()
if run.step == steps:
    images, labels = read("t10k")
    net.eval()
    with torch.no_grad():  # on each rank: the last one may be the only one that lives to tell
        run.report({"accuracy": (net(images).argmax(1) == labels).float().mean()}, step=run.step, group="test")
