"""Saves a state of ten large arrays with small ones between them, changes one of the ten, saves it again, and writes how many bytes
the daemon's store has grown by each time. Usage: LOG"""

import os
import sys
import time

import numpy
import shoal

run = shoal.init()
store = os.path.join(os.path.dirname(os.environ["SHOAL_SOCKET"]), "chunks", "data.mdb")
random = numpy.random.default_rng(1)
model = {}
for i in range(10):
    model[f"layer{i}.weight"] = random.random((1000, 1001), "f4")
    model[f"layer{i}.bias"] = random.random(1001, "f4")
sizes = [os.stat(store).st_size]
for step in (99, 100_000):
    run.save({"model": model, "notes": "x" * step}, step=step)  # the state begins with a part of another length
    while run.durable_step < step:
        time.sleep(0.02)
    sizes.append(os.stat(store).st_size)
    model["layer4.weight"] += 1
with open(sys.argv[1], "w") as log:
    print(sizes[1] - sizes[0], sizes[2] - sizes[1], file=log)
