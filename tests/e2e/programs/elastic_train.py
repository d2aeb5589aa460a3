"""An elastic PyTorch program that trains slowly until a file is there, and in its last ten epochs hardly at all; each rank tells
of the state with which it begins.

usage: elastic_train.py FILE EPOCHS, of twenty steps
"""

import os
import sys
import time

import shoal
import torch
from torch import nn

gate, epochs = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
run = shoal.init(elastic=True)
torch.manual_seed(run.seed % 2**63)
data = torch.utils.data.TensorDataset(torch.randn(480, 16), torch.randint(4, (480,)))
net = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 4))
model = shoal.torch.DistributedDataParallel(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100, 0.9)
generator = torch.Generator()
generator.manual_seed(1)


def drawn(steps):
    """The generator's state behind so many steps."""
    fresh = torch.Generator()
    fresh.manual_seed(1)
    for _ in range(steps):
        torch.rand(1, generator=fresh)
    return fresh.get_state()


run.carry(model=net, optimizer=optimizer, scheduler=scheduler, generator=generator)
is_begun = False
for epoch in run.epochs(epochs):
    if not is_begun:
        is_begun = True
        moments = {int(each["step"]) for each in optimizer.state.values()} or {0}
        is_drawn = bool((drawn(int(run.step)) == generator.get_state()).all())
        print("BEGINS", int(run.step), epoch, *moments, scheduler.last_epoch, is_drawn, flush=True)
    for x, y in run.batches(torch.utils.data.DataLoader(data, batch_size=24, shuffle=True)):
        with run.step():
            optimizer.zero_grad()
            noise = torch.rand(1, generator=generator)
            loss = nn.functional.cross_entropy(model(x + 0.1 * noise), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            if run.rank == 0:
                run.report({"loss": loss}, step=run.step + 1)
        if not os.path.exists(gate):
            time.sleep(0.02 if epoch < epochs - 10 else 1)
