"""Shows that a change moved code and nothing else: runs the same seeds with a build from before the change and with one from
after it, and compares the hashes of their traces, which cover every event, effect, message and record of a run.

usage: digests.py BUILD_BEFORE BUILD_AFTER
  Build directories with the program sim. Exits 1 if a seed differs."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLANS = (6, 12)
SEEDS = range(1, 201)
ANSWER = re.compile(r"^seed \d+ (holds: .*|breaks .*\n.*)$", re.MULTILINE)


def trace(build, plan, seed):
    """Events, steps and hash of one seed, or the invariant that it breaks, or the last line of a program that failed."""
    run = subprocess.run([build / "sim", "--plan", str(plan), "--seed", str(seed)], capture_output=True, text=True, check=False)
    match = ANSWER.search(run.stdout)
    return match.group(1) if match else (run.stdout + run.stderr).strip().splitlines()[-1]


def main():
    builds = [Path(argument).resolve() for argument in sys.argv[1:]]
    if len(builds) != 2 or not all((build / "sim").exists() for build in builds):
        print(__doc__, file=sys.stderr)
        return 2
    differing = 0
    worlds = [(plan, seed) for plan in PLANS for seed in SEEDS]
    with ThreadPoolExecutor(2) as pool:
        pairs = pool.map(lambda world: [trace(build, *world) for build in builds], worlds)
        for (plan, seed), (before, after) in zip(worlds, pairs):
            if before != after:
                differing += 1
                print(f"plan {plan} seed {seed}: was {before}; is {after}")
    print(f"{len(worlds)} seeds, {differing} of them differ")
    return 1 if differing else 0


sys.exit(main())
