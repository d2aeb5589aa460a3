"""A trial for the client's cases: reports a loss, saves a state of plain values, writes a line for each step."""

import sys
import time

import shoal

steps, pause_s = int(sys.argv[1]), float(sys.argv[2])
with shoal.init() as run:
    for step in range(1, steps + 1):
        run.report({"loss": run.hparams["x"] + 1 / step}, step=step)
        print(f"step {step}", flush=True)
        time.sleep(pause_s)
    run.report({"loss": run.hparams["x"]}, step=steps, group="validation")
    run.save({"x": run.hparams["x"], "names": ("a", "b")}, step=steps)
