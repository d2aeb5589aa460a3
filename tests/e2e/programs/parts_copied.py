"""A trial of pbt whose ranks save checkpoints in parts. Usage: LOG STEPS. Each life of a rank writes a file LOG.TOKEN: "begin TRIAL ATTEMPT
RANK STEP STATE", where STATE is the list of the trials and the steps that have saved its part."""

import os
import sys
import time

import shoal

run = shoal.init()
state = run.load()
with open(f"{sys.argv[1]}.{os.environ['SHOAL_TOKEN']}", "w") as log:
    log.write(f"begin {run.trial} {run.attempt} {run.rank} {run.step} {state and [state['of'], state['saved']]}\n")
x = run.hparam("x")
for step in range(run.step + 1, int(sys.argv[2]) + 1):
    run.report({"loss": x}, step=step, group="validation")
    run.save({"of": run.rank, "saved": [*(state["saved"] if state else []), [run.trial, step]]}, step=step, sharded=True)
    run.flush()
    while run.durable_step < step and not run.should_stop(sync=False):
        time.sleep(0.02)
    if run.should_stop():
        break
    time.sleep(0.1)
