"""Trains a model whose parameters FSDP divides among the ranks, and saves after each step by torch.distributed.checkpoint: every rank
writes its own shard. At its start it goes on from the newest complete step, and fails if what it loads is not what was saved.

usage: dcp_train.py STEPS PAUSE_S"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def complete_steps():
    names = os.listdir("dcp") if os.path.isdir("dcp") else []
    return sorted(int(name.split("_")[1]) for name in names if os.path.exists(f"dcp/{name}/.metadata"))


def total_of(model):
    """Of all parameters, from all ranks; the same on each."""
    return sum(parameter.full_tensor().double().sum() for parameter in model.parameters())


def main():
    steps, pause_s = int(sys.argv[1]), float(sys.argv[2])
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    inputs = torch.randn(512, 20)
    labels = inputs.sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1))
    fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    found = complete_steps()
    done = found[-1] if found else 0
    if done:
        weights, moments = get_state_dict(model, optimiser)
        state = {"model": weights, "optimiser": moments, "total": torch.zeros((), dtype=torch.float64)}
        dcp.load(state, checkpoint_id=f"dcp/step_{done}")
        set_state_dict(model, optimiser, model_state_dict=state["model"], optim_state_dict=state["optimiser"])
        total = total_of(model)
        assert total == state["total"], f"the parameters of step {done} come to {total}, and {state['total']} were saved"
        print(f"rank {rank} goes on from step {done}", flush=True)
    for step in range(done + 1, steps + 1):
        time.sleep(pause_s)
        chosen = torch.arange(step * 16, step * 16 + 16)[rank::size] % 512
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), labels[chosen])
        loss.backward()
        optimiser.step()
        weights, moments = get_state_dict(model, optimiser)
        dcp.save({"model": weights, "optimiser": moments, "total": total_of(model)}, checkpoint_id=f"dcp/step_{step}")
        print(f"rank {rank} saved step {step}", flush=True)
    print(f"rank {rank} of {size} is done with {total_of(model).item()!r}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
