"""A training script as people write it, without PyTorch: it knows no variable of Shoal, only torchrun's. Each epoch rank 0
writes checkpoints/epoch_00001.bin; at its start every rank looks for the newest file that it finds.

usage: plain_save.py EPOCHS PAUSE_S"""

import glob
import json
import os
import sys
import time

epochs, pause_s = int(sys.argv[1]), float(sys.argv[2])
rank = int(os.environ.get("RANK", "0"))
files = sorted(glob.glob("checkpoints/epoch_*.bin"))
done = 0
if files:
    with open(files[-1]) as file:
        done = json.load(file)["epoch"]
    print(f"rank {rank} goes on from {files[-1]}", flush=True)
else:
    print(f"rank {rank} begins", flush=True)
for epoch in range(done + 1, epochs + 1):
    time.sleep(pause_s)
    if rank == 0:
        os.makedirs("checkpoints", exist_ok=True)
        with open(f"checkpoints/epoch_{epoch:05}.bin", "w") as file:
            json.dump({"epoch": epoch, "weights": [epoch * 0.5] * 1000}, file)
        for old in sorted(glob.glob("checkpoints/epoch_*.bin"))[:-3]:
            os.remove(old)
        print(f"epoch {epoch} is saved", flush=True)
print(f"rank {rank} is done", flush=True)
