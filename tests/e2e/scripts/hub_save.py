"""Saves as a trainer of Hugging Face does: a directory of eight files for each step, written file by file, or under another name
and renamed at the end. At its start it goes on from the directory with the highest number, and fails if a file lacks.

usage: hub_save.py STEPS PAUSE_S direct|renamed"""

import os
import shutil
import sys
import time

steps, pause_s, manner = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
NAMES = ["config.json", "generation_config.json", "model.safetensors", "optimizer.pt", "rng_state.pth", "scheduler.pt",
         "trainer_state.json", "training_args.bin"]
os.makedirs("out", exist_ok=True)
found = sorted((int(name.split("-")[1]) for name in os.listdir("out") if name.startswith("checkpoint-")))
done = found[-1] if found else 0
if done:
    for name in NAMES:
        with open(f"out/checkpoint-{done}/{name}") as file:
            text = file.read()
        assert text.startswith(f"{name} of step {done}\n"), f"checkpoint-{done}/{name} begins with {text[:40]!r}"
    print(f"goes on from checkpoint-{done}", flush=True)
else:
    print("begins", flush=True)
for step in range(done + 1, steps + 1):
    time.sleep(pause_s)
    target = f"out/checkpoint-{step}"
    directory = target if manner == "direct" else f"out/tmp-checkpoint-{step}"
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    for name in NAMES:
        with open(f"{directory}/{name}", "w") as file:
            file.write(f"{name} of step {step}\n" + "x" * 20000)
        time.sleep(0.02)
    if manner == "renamed":
        os.rename(directory, target)
    if step > 2:
        shutil.rmtree(f"out/checkpoint-{step - 2}", ignore_errors=True)
    print(f"saved checkpoint-{step}", flush=True)
print("is done", flush=True)
