"""Two or more ranks that meet at each step, report it, save now and then, and resume. Usage: LOG STEPS

Each life of a rank writes a file LOG.TOKEN: "begin ATTEMPT RANK STEP", where STEP is that of the loaded state; for each step
"step STEP DURABLE", where DURABLE is the newest durable checkpoint that the rank knows of; and "leave STEP REASON"."""

import os
import sys
import time

import shoal

run = shoal.init()
log = open(f"{sys.argv[1]}.{os.environ['SHOAL_TOKEN']}", "w", buffering=1)
state = run.load() or {"step": 0, "sum": 0}
log.write(f"begin {run.attempt} {run.rank} {state['step']}\n")
assert state["step"] == run.step and state["sum"] == sum(range(run.step + 1)), state
for step in range(state["step"] + 1, int(sys.argv[2]) + 1):
    time.sleep(0.01)
    state = {"step": step, "sum": state["sum"] + step, "weights": bytes(50000)}
    if run.rank == 0:
        run.report({"loss": 1 / step}, step=step)
    if step % 20 == 0:
        run.save(state, step=step)
    log.write(f"step {step} {run.durable_step}\n")
    if run.should_stop():
        run.save(state, step=step)
        log.write(f"leave {step} {run.stop_reason}\n")
        break
