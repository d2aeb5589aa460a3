"""Two ranks that save a checkpoint in two parts every tenth step, whether or not it is taken. Usage: LOG END: until the file END is there.

Each life of a rank writes a file LOG.TOKEN: "begin ATTEMPT RANK STEP STATE", and for each save "refused STEP SENTENCE" or "saved STEP", and
"durable STEP" for those that became durable."""

import os
import sys
import time

import shoal

run = shoal.init()
state = run.load()
log = open(f"{sys.argv[1]}.{os.environ['SHOAL_TOKEN']}", "w", buffering=1)
log.write(f"begin {run.attempt} {run.rank} {run.step} {state}\n")
step = run.step
while not any(run.all_gather(os.path.exists(sys.argv[2]))):
    step += 1
    time.sleep(0.05)
    if step % 10 == 0:
        try:
            run.save({"of": run.rank, "step": step}, step=step, sharded=True)
            run.flush()
            log.write(f"saved {step}\n")
        except shoal.ShoalError as error:
            log.write(f"refused {step} {error}\n")
    log.write(f"durable {run.durable_step}\n")
