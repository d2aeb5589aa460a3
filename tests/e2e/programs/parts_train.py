"""Two ranks that save checkpoints in two parts. Usage: LOG. Rank 1 of the first attempt ends when rank 0 has saved its part of step 30.

Each life of a rank writes a file LOG.TOKEN with "begin ATTEMPT RANK STEP STATE"."""

import os
import sys
import time

import shoal

run = shoal.init()
state = run.load()
with open(f"{sys.argv[1]}.{os.environ['SHOAL_TOKEN']}", "w") as log:
    log.write(f"begin {run.attempt} {run.rank} {run.step} {state}\n")
for step in range(run.step + 1, 41):
    if step % 10 == 0:
        if step == 30 and run.attempt == 1 and run.rank == 1:
            run._save = lambda *_: (time.sleep(5), os._exit(3))  # behind the meeting of the ranks
        run.save({"of": run.rank, "step": step}, step=step, sharded=True)
        run.flush()
        while run.durable_step < step:
            time.sleep(0.05)
    run.barrier()
