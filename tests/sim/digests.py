"""Shows that a change moved code and nothing else: runs the seeds of tests/sim/digests and compares each trace's hash, which
covers every event, effect, message and record of the run, with the one that stands there.

usage: digests.py BUILD_DIRECTORY [--write]
  --write  prints the table of this build instead, for tests/sim/digests. A change that is meant to change what nodes do or
           write ends the table's use."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TABLE = Path(__file__).resolve().parent / "digests"
PLANS = (6, 8)
SEEDS = range(1, 201)
ANSWER = re.compile(r"seed \d+ holds: (\d+) events, (\d+) steps, trace ([0-9a-f]{16})")


def trace(sim, plan, seed):
    """'events steps hash' of one seed, or what the simulator said in its place."""
    run = subprocess.run([sim, "--plan", str(plan), "--seed", str(seed)], capture_output=True, text=True, check=False)
    match = ANSWER.search(run.stdout)
    return " ".join(match.groups()) if match else (run.stdout + run.stderr).strip().splitlines()[-1]


def main():
    arguments = sys.argv[1:]
    writes = "--write" in arguments
    arguments = [argument for argument in arguments if argument != "--write"]
    if len(arguments) != 1 or not (Path(arguments[0]) / "sim").exists():
        print(__doc__, file=sys.stderr)
        return 2
    sim = str(Path(arguments[0]) / "sim")
    if writes:
        wanted = {(plan, seed): None for plan in PLANS for seed in SEEDS}
    else:
        rows = [line.split(maxsplit=2) for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
        wanted = {(int(plan), int(seed)): rest for plan, seed, rest in rows}
    with ThreadPoolExecutor(2) as pool:
        seen = dict(zip(wanted, pool.map(lambda key: trace(sim, *key), wanted)))
    if writes:
        for (plan, seed), said in seen.items():
            print(plan, seed, said)
        return 0
    differ = [key for key in wanted if wanted[key] != seen[key]]
    for plan, seed in differ:
        print(f"plan {plan} seed {seed}: was {wanted[plan, seed]}, is {seen[plan, seed]}")
    print(f"{len(wanted)} seeds, {len(differ)} of them differ")
    return 1 if differ or not wanted else 0


sys.exit(main())
