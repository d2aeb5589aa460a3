"""`plain.py` with Shoal: it reports, saves, resumes, and leaves when it is asked to. Alone and under torchrun it runs, too.

usage: shoal submit search.yaml
       shoal submit adaptive.yaml
"""

import argparse

import shoal
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import parts

parser = argparse.ArgumentParser()
parser.add_argument("--net", choices=["mlp", "cnn", "gpt"], default="mlp")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--batch", type=int, default=64, help="samples in a step, of all ranks together")
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--save-every", type=int, default=50, help="steps")
parser.add_argument("--decay", type=float, default=0, help="part of the learning rate that is gone by the last step")
parser.add_argument("--validate-every", type=int, default=0, help="steps; then the last 5,000 images are not trained on (mlp, cnn)")
arguments = parser.parse_args()

run = shoal.init()
lr, width = run.hparam("lr", arguments.lr), run.hparam("width", arguments.width)
if run.size > 1:
    dist.init_process_group("gloo")
torch.manual_seed(1)
torch.set_num_threads(1)
net, samples = parts.build(run.hparam("net", arguments.net), width)
optimizer = torch.optim.AdamW(net.parameters(), lr=lr)
state = run.load()
if state is not None:
    net.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
model = DistributedDataParallel(net) if run.size > 1 else net
held = None
if arguments.validate_every:
    samples, held = parts.Pairs(*samples[:-5000]), parts.Pairs(*samples[-5000:])
for step, inputs, targets in parts.batches(samples, arguments.batch, run.rank, run.size, run.step, arguments.steps):
    optimizer.param_groups[0]["lr"] = lr * (1 - arguments.decay * step / arguments.steps)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    if run.rank == 0:
        print(f"step {step + 1} loss {loss.item():.9g}", flush=True)
        run.report({"loss": loss}, step=step + 1)
        if held and (step + 1) % arguments.validate_every == 0:
            run.report({"accuracy": parts.accuracy(net, held)}, step=step + 1, group="validation")
    stop = run.should_stop()
    if stop or (step + 1) % arguments.save_every == 0 or step + 1 == arguments.steps:
        run.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, step=step + 1)
    if stop and step + 1 < arguments.steps:
        break
else:
    if run.rank == 0 and held:
        run.report({"accuracy": parts.accuracy(net, parts.Pairs(*parts.fashion(parts.DATA, "t10k")))}, step=arguments.steps, group="test")
    elif run.rank == 0:
        run.report({"loss": loss}, step=arguments.steps, group="validation")
