"""plain.py of examples/pytorch-shoal, whose gradients are summed in the order of the ranks, as Shoal sums them. Gloo has another
order, and the sums of more than two numbers depend on it.

usage: plain_in_order.py PLAIN'S ARGUMENTS"""

import runpy

import torch
import torch.distributed as dist
from torch.nn import parallel


def sum_in_order(_state, bucket):
    flat, size = bucket.buffer(), dist.get_world_size()
    parts = [torch.empty_like(flat) for _ in range(size)]
    dist.all_gather(parts, flat)
    total = parts[0]
    for part in parts[1:]:
        total += part
    future = torch.futures.Future()
    future.set_result(total / size)
    return future


class InOrder(parallel.DistributedDataParallel):
    def __init__(self, module):
        super().__init__(module)
        self.register_comm_hook(None, sum_in_order)


parallel.DistributedDataParallel = InOrder
runpy.run_path("plain.py", run_name="__main__")
