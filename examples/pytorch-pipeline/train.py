"""A network in two stages, each on a slot of its own, perhaps on two hosts: torch.distributed.pipelining (PyTorch 2.5 and later).

Each rank saves its stage as a part of the checkpoint, so no host has to hold the whole network; after a loss all ranks begin
again from the newest checkpoint of which every stage is stored.

usage: shoal submit pipeline.yaml
"""

import argparse
import gzip
import os

import shoal
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

parser = argparse.ArgumentParser()
parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist", help="directory of Fashion-MNIST (Debian's dataset-fashion-mnist)")
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--microbatches", type=int, default=4, help="pieces of a batch that are in the stages at a time")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--save-every", type=int, default=50)
arguments = parser.parse_args()


def read(part):
    def idx(name, header_bytes):
        with gzip.open(os.path.join(arguments.data, f"{part}-{name}.gz")) as file:
            return torch.frombuffer(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)

    return idx("images-idx3-ubyte", 16).view(-1, 784).float() / 255, idx("labels-idx1-ubyte", 8).long()


def stage_of(rank, size):
    """The layers of one rank: as many as of any other, or one more. All ranks draw the same weights."""
    width = arguments.width
    layers = [nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)]
    return nn.Sequential(*layers[len(layers) * rank // size : len(layers) * (rank + 1) // size])


run = shoal.init()
torch.set_num_threads(1)
torch.manual_seed(run.seed % 2**63)
dist.init_process_group("gloo")
net = stage_of(run.rank, run.size)
optimizer = torch.optim.AdamW(net.parameters(), lr=run.hparam("lr", arguments.lr))
state = run.load()  # this rank's part
if state is not None:
    net.load_state_dict(state["stage"])
    optimizer.load_state_dict(state["optimizer"])
print(f"stage {run.rank} of {run.size} begins at step {run.step}", flush=True)

stage = PipelineStage(net, run.rank, run.size, torch.device("cpu"))
schedule = ScheduleGPipe(stage, arguments.microbatches, loss_fn=nn.functional.cross_entropy)
is_first, is_last = run.rank == 0, run.rank == run.size - 1
images, labels = read("train")
for step in range(run.step + 1, arguments.steps + 1):
    chosen = torch.randint(len(images), (arguments.batch,), generator=torch.Generator().manual_seed(step))
    losses = []
    optimizer.zero_grad()
    schedule.step(*([images[chosen]] if is_first else []), **({"target": labels[chosen], "losses": losses} if is_last else {}))
    optimizer.step()
    loss = torch.stack(losses).mean().detach() if is_last else torch.zeros(())
    dist.broadcast(loss, src=run.size - 1)  # to the first stage: the trial's step and metrics are those of rank 0
    if is_first:
        run.report({"loss": loss}, step=step)
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.6g}", flush=True)
    stops = run.should_stop()
    if stops or step % arguments.save_every == 0 or step == arguments.steps:
        run.save({"stage": net.state_dict(), "optimizer": optimizer.state_dict()}, step=step, sharded=True)
    if stops:
        break
dist.barrier()
dist.destroy_process_group()
