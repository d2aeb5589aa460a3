"""Saves as torch.distributed.checkpoint does: each rank writes its shard __RANK_0.distcp into dcp/step_N, and once all shards are
there rank 0 writes .metadata, which names them. At its start each rank goes on from the newest step with .metadata, and fails if
a shard that it names is not there. The ranks meet over TCP at MASTER_ADDR and MASTER_PORT.

usage: shard_save.py STEPS PAUSE_S"""

import json
import os
import socket
import sys
import time

steps, pause_s = int(sys.argv[1]), float(sys.argv[2])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
links = []
if rank == 0:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", address[1]))
    server.listen(size)
    links = [server.accept()[0] for _ in range(size - 1)]
else:
    while not links:
        try:
            links = [socket.create_connection(address, timeout=60)]
        except OSError:
            time.sleep(0.1)
for link in links:
    link.settimeout(60)


def barrier():
    for link in links:
        link.sendall(b"b")
    for link in links:
        if link.recv(1) != b"b":
            sys.exit("another rank is gone")


def complete():
    names = os.listdir("dcp") if os.path.isdir("dcp") else []
    return sorted(int(name.split("_")[1]) for name in names if os.path.exists(f"dcp/{name}/.metadata"))


done = complete()[-1] if complete() else 0
if done:
    with open(f"dcp/step_{done}/.metadata") as file:
        shards = json.load(file)["shards"]
    for shard in shards:
        with open(f"dcp/step_{done}/{shard}") as file:
            assert file.read() == f"{shard} of step {done}", f"{shard} of step {done} is another one"
    print(f"rank {rank} goes on from step {done} with {len(shards)} shards", flush=True)
else:
    print(f"rank {rank} begins", flush=True)
barrier()
for step in range(done + 1, steps + 1):
    time.sleep(pause_s)
    os.makedirs(f"dcp/step_{step}", exist_ok=True)
    with open(f"dcp/step_{step}/__{rank}_0.distcp", "w") as file:
        file.write(f"__{rank}_0.distcp of step {step}")
    barrier()
    if rank == 0:
        with open(f"dcp/step_{step}/.metadata", "w") as file:
            json.dump({"shards": [f"__{r}_0.distcp" for r in range(size)]}, file)
    barrier()
    print(f"rank {rank} saved step {step}", flush=True)
print(f"rank {rank} is done", flush=True)
