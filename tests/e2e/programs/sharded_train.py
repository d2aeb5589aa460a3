"""Ranks of FSDP2, or of DDP with ZeroRedundancyOptimizer, that save sharded checkpoints. Usage: fsdp|zero LOG STEPS

Each life of a rank writes a file LOG.TOKEN: "begin ATTEMPT RANK SIZE STEP DIGEST", where DIGEST is of the whole state that was loaded
("-" without a checkpoint), as all ranks together have it; "saved STEP DIGEST" before each save; and "durable STEP"."""

import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import shoal
from shoal import torch_checkpoint

mode, log_path, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
run = shoal.init()
torch.set_num_threads(1)
dist.init_process_group("gloo")
log = open(f"{log_path}.{os.environ['SHOAL_TOKEN']}", "w", buffering=1)
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(37, 101), nn.ReLU(), nn.Linear(101, 53), nn.ReLU(), nn.Linear(53, 7))  # nothing that 2, 3 or 4 divides


def digest(named):
    """Of tensors by name, of which each rank gives some."""
    mine = {name: hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest() for name, tensor in named.items()}
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    united = {name: value for each in everyone for name, value in each.items()}
    return hashlib.sha256(repr(sorted(united.items())).encode()).hexdigest()[:16]


class Fsdp:
    def __init__(self):
        from torch.distributed.fsdp import fully_shard

        for layer in net:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        self.model = fully_shard(net)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)

    def state(self):
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def loaded(self, state):
        from torch.distributed.checkpoint.state_dict import set_state_dict

        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    def digest(self):
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        named = dict(model)
        for name, values in optimizer["state"].items():
            named |= {f"{name} {key}": value for key, value in values.items()}
        return digest({name: value.full_tensor() if hasattr(value, "full_tensor") else value for name, value in named.items()})


class Zero:
    def __init__(self):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        self.model = nn.parallel.DistributedDataParallel(net)
        self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.Adam, lr=1e-2)

    def mine(self):
        """The names and parameters whose state this rank has."""
        held = {id(p) for group in self.optimizer.optim.param_groups for p in group["params"]}
        return [(name, p) for name, p in net.named_parameters() if id(p) in held]

    def state(self):
        for _, p in self.mine():
            if not self.optimizer.optim.state[p]:
                self.optimizer.optim.state[p] = {"step": torch.zeros(()), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        shards = {f"{name} {key}": value for name, p in self.mine() for key, value in self.optimizer.optim.state[p].items()}
        return {"model": net.state_dict(), "optimizer": shards}

    def loaded(self, state):
        net.load_state_dict(state["model"])  # the optimizer's tensors are those of the state

    def digest(self):
        state = self.state()
        return digest(state["model"] | state["optimizer"])


training = Fsdp() if mode == "fsdp" else Zero()
state = training.state()
step = torch_checkpoint.load(state)
if step is not None:
    training.loaded(state)
log.write(f"begin {run.attempt} {run.rank} {run.size} {step or 0} {'-' if step is None else training.digest()}\n")
for step in range((step or 0) + 1, steps + 1):
    generator = torch.Generator().manual_seed(step * 1000 + run.rank)
    x = torch.randn(8, 37, generator=generator)
    training.optimizer.zero_grad()
    training.model(x).square().mean().backward()
    training.optimizer.step()
    time.sleep(0.05)
    if run.rank == 0:
        run.report({"loss": 1 / step}, step=step)
    stops = run.should_stop()
    if step % 5 == 0 or stops:
        log.write(f"saved {step} {training.digest()}\n")
        torch_checkpoint.save(training.state(), step)
    log.write(f"durable {run.durable_step}\n")
    if stops:
        break
dist.barrier()
dist.destroy_process_group()
