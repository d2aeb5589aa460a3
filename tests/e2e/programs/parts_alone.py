"""Two ranks that save checkpoints in two parts. Usage: LOG GO. The first attempt saves step 30 once the file GO is there, and goes on then
without another save until it is ended; a later one saves step 30 once GO.again is there, and makes 40 steps.

Each life of a rank writes a file LOG.TOKEN: "begin ATTEMPT RANK STEP STATE", and "durable STEP" whenever it has another one."""

import os
import sys
import time

import shoal

run = shoal.init()
state = run.load()
log = open(f"{sys.argv[1]}.{os.environ['SHOAL_TOKEN']}", "w", buffering=1)
log.write(f"begin {run.attempt} {run.rank} {run.step} {state}\n")
durable = None


def look():
    global durable
    if run.durable_step != durable:
        durable = run.durable_step
        log.write(f"durable {durable}\n")
    time.sleep(0.05)


for step in range(run.step + 1, 41):
    if step % 10 == 0:
        while step == 30 and not os.path.exists(sys.argv[2] if run.attempt == 1 else f"{sys.argv[2]}.again"):
            look()
        run.save({"of": run.rank, "step": step}, step=step, sharded=True)
        run.flush()
        while run.durable_step < step:
            look()
    run.barrier()
look()
