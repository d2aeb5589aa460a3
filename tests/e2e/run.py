"""Runs the end-to-end cases: real daemons, real workers, real deaths. Cases are the functions marked @case in case_*.py.

Each gets a directory and a mesh of its own and a time limit; whatever it started is ended, by id. One line per case:
`ok|FAILED|skipped NAME (SECONDS) REASON`. The exit status is 0 only if no case failed. One runs after the other, unless
--together says otherwise: then each runs in a process of its own."""

import argparse
import importlib
import multiprocessing
import signal
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import lab  # noqa: E402


class LimitReached(BaseException):
    """Not an Exception, so that no case catches it by accident."""


def on_alarm(*_):
    raise LimitReached


def find_cases():
    for path in sorted(HERE.glob("case_*.py")):
        importlib.import_module(path.stem)
    names = [case.name for case in lab.CASES]
    double = {name for name in names if names.count(name) > 1}
    if double:
        raise SystemExit(f"run.py: two cases have the name {', '.join(sorted(double))}")
    return lab.CASES


def run_case(case, build, seed, arguments):
    """Returns "ok", "FAILED" or "skipped", and the lines that say so."""
    began = time.monotonic()
    room = lab.Lab(case.name, build, seed)
    verdict, reason, details = "ok", "", ""
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(case.limit_s * lab.slowness)
    try:
        reason = case.function(room) or ""
    except lab.Skip as skip:
        verdict, reason = "skipped", str(skip)
    except LimitReached:
        verdict, reason, details = "FAILED", f"not done within {case.limit_s * lab.slowness} s", traceback.format_exc(limit=-6)
    except Exception as error:  # whatever it is, the next case gets its chance
        verdict, reason, details = "FAILED", f"{error}" or type(error).__name__, traceback.format_exc(limit=-6)
    finally:
        signal.alarm(0)
        room.end()
    report = room.sanitizer_report()
    if report is not None:
        verdict, reason = "FAILED", f"{report}; {reason}"
    seconds = time.monotonic() - began
    said = [f"{verdict} {case.name} ({seconds:.1f}) {reason}".rstrip()]
    if verdict == "FAILED" or arguments.verbose:
        notes = [f"seed {seed}", *room.notes, details.rstrip(), room.log_tails() if verdict == "FAILED" else ""]
        said += ["    " + line for text in notes if text for line in text.splitlines()]
    if arguments.keep:
        said.append(f"    everything is in {room.dir}")
    else:
        room.remove()
    return verdict, "\n".join(said)


def run_turns(turns, build, arguments):
    """One after the other; yields what run_case returns."""
    for case, seed in turns:
        yield run_case(case, build, seed, arguments)


def run_turn(name, build, seed, arguments):
    return run_case(next(case for case in lab.CASES if case.name == name), build, seed, arguments)


def run_together(turns, build, arguments, at_a_time):
    """Those that may take longest first; yields as run_turns does, in the order of their ends."""
    turns = sorted(turns, key=lambda turn: -turn[0].limit_s)
    with ProcessPoolExecutor(at_a_time, mp_context=multiprocessing.get_context("fork")) as pool:
        running = [pool.submit(run_turn, case.name, build, seed, arguments) for case, seed in turns]
        for done in as_completed(running):
            yield done.result()


def main():
    parser = argparse.ArgumentParser(prog="tests/e2e/run.py", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these cases: a part of FILE.NAME is enough, as --list shows it")
    parser.add_argument("--list", action="store_true", help="the cases' names")
    parser.add_argument("--build", default="build/release", metavar="DIR", help="where shoald, shoal, ... are")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--together", type=int, default=0, metavar="N", help="N at a time, without those that bear less beside them")
    which.add_argument("--pairs", action="store_true", help="only those that bear one other beside them, two at a time")
    which.add_argument("--alone", action="store_true", help="only those that must run alone")
    which.add_argument("--field", action="store_true", help="only the long forms of cases, which nothing else runs")
    which.add_argument("--soak", type=int, default=0, metavar="N", help="N random kills instead, seeds SEED, SEED+1, ...")
    parser.add_argument("--seed", type=int, default=None, metavar="S", help="of the random moments; else from the clock")
    parser.add_argument("--keep", action="store_true", help="keep the cases' directories")
    parser.add_argument("--verbose", action="store_true", help="show the cases' notes")
    arguments = parser.parse_args()
    cases = [c for c in find_cases() if not arguments.names or any(name in c.full_name for name in arguments.names)]
    beside = "alone" if arguments.alone else "pairs" if arguments.pairs else "together"
    at_a_time = 2 if arguments.pairs else arguments.together
    if not arguments.names:
        cases = [case for case in cases if case.whole == arguments.field]
    if arguments.alone or at_a_time > 0:
        cases = [case for case in cases if case.beside == beside]
    if arguments.list:
        print("\n".join(case.full_name for case in cases))
        return 0
    build = Path(arguments.build).resolve()
    missing = [p for p in ("shoald", "shoal", "shoal-keep", "shoal-train") if not (build / p).exists()]
    if missing or not cases:
        print(f"run.py: {build} has no {', '.join(missing)}; build it or give --build." if missing
              else f"run.py: no case is named {' or '.join(arguments.names)}; see --list.", file=sys.stderr)
        return 2
    seed = arguments.seed if arguments.seed is not None else int(time.time())
    turns = [(case, seed) for case in cases]
    if arguments.soak > 0:
        soaked = [case for case in cases if case.soak]
        turns = [(soaked[i % len(soaked)], seed + i) for i in range(arguments.soak)]
    print(f"seed {seed}", flush=True)
    verdicts = []
    run = run_turns(turns, build, arguments) if at_a_time == 0 else run_together(turns, build, arguments, at_a_time)
    for verdict, said in run:
        verdicts.append(verdict)
        print(said, flush=True)
    print(f"{verdicts.count('ok')} ok, {verdicts.count('FAILED')} failed, {verdicts.count('skipped')} skipped", flush=True)
    return 1 if "FAILED" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
