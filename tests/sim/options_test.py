#!/usr/bin/python3
"""What the simulator's programs cannot use they name in one sentence, at once. usage: options_test.py BUILD_DIRECTORY"""

import json
import subprocess
import sys
from pathlib import Path

BUILD = Path(sys.argv[1]).resolve()
BOUND_S = 60


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def run(command):
    program, *words = command.split()
    return subprocess.run([str(BUILD / program), *words], capture_output=True, text=True, timeout=BOUND_S)


def must_refuse(command, sentence):
    done = run(command)
    expect((done.returncode, done.stdout, done.stderr) == (2, "", sentence + "\n"),
           f"{command}: {sentence!r} was wanted, status 2, and came {done.stderr!r}, status {done.returncode}")


def must_take(command):
    done = run(command)
    expect(done.returncode != 2 and done.stdout and not done.stderr, f"{command}: status {done.returncode}, {done.stderr!r}")


def sim_options_that_do_not_go_together_are_refused():
    many = "sim: --first, --seeds, --jobs, --seconds and --keep-going are about many seeds; leave them out, or --seed."
    for option in ("--first 2", "--seeds 5", "--jobs 1", "--seconds 9", "--keep-going"):
        must_refuse(f"sim --seed 1 {option}", many)
    one = "sim: --verbose, --shrink, --without and --skip are about one seed; give it with --seed."
    for option in ("--verbose", "--shrink", "--without 0", "--skip 1"):
        must_refuse(f"sim {option}", one)
    must_refuse("sim --seed 1 --verbose --shrink", "sim: --verbose and --shrink are two runs; give one of them.")
    must_refuse("sim --marks", "sim: this one runs the cores as they ship, without bugs and marks; use sim_bugs.")
    broken = "sim_bugs: --ranges and --without-rare are about the rules that --bugs breaks; give --bugs, too."
    for option in ("--ranges 3", "--without-rare", "--bug index_order --ranges 3"):
        must_refuse(f"sim_bugs {option}", broken)
    seeds = "sim_bugs: --bugs and --marks are about many seeds; give --first and --seeds instead of --seed."
    for option in ("--bugs", "--marks"):
        must_refuse(f"sim_bugs {option} --seed 1", seeds)
    must_refuse("sim_bugs --bugs --marks", "sim_bugs: --bugs and --marks are two runs; give one of them.")
    until = "sim_bugs: --bugs runs until each rule is found; leave --seconds and --keep-going out."
    for option in ("--seconds 9", "--keep-going"):
        must_refuse(f"sim_bugs --bugs {option}", until)
    must_refuse("sim_bugs --bugs --bug index_order --without-rare",
                "sim_bugs: --bug names the only rule to break; leave --without-rare out.")
    must_refuse("sim_bugs --list --seeds 5", "sim_bugs: --list names the rules and runs nothing; give it alone.")


def sim_options_that_go_together_are_taken():
    for command in ("sim --seed 1 --minutes 1 --plan 6 --without 0x1 --skip 0x1 --verbose", "sim --first 2 --seeds 2 --jobs 1 --seconds 9",
                    "sim_bugs --marks --first 5 --seeds 2", "sim_bugs --bug index_order --seed 1", "sim_bugs --list",
                    "sim_bugs --bugs --bug acknowledged_before_disk --ranges 2 --seeds 2 --jobs 2"):
        must_take(command)


def sim_minutes_are_as_many_as_events_are_allowed_for():
    must_refuse("sim --minutes 7000 --seed 1", "sim: --minutes is '7000'; allowed are whole numbers from 1 to 500.")


def a_program_names_itself_when_it_refuses_a_rule():
    must_refuse("sim_bugs --bug nosuch", "sim_bugs: no rule that can be broken is called 'nosuch'; sim_bugs --list names them.")


def scale_asks_nothing_of_changes_that_are_not_made():
    must_refuse("scale --nodes 4 --changes 0 --limits",
                "scale: --limits is about changes, and --changes 0 makes none; give 1 at least, or leave --limits out.")


def scale_says_how_many_changes_and_deaths_it_timed():
    for given, changes, deaths in (("--changes 3 --deaths 5 --limits", 3, 5), ("--changes 0 --deaths 0", 0, 0)):
        done = run(f"scale --nodes 2 --minutes 0 {given}")
        result = json.loads(done.stdout)
        expect(done.returncode == 0 and not done.stderr, f"status {done.returncode}, {done.stderr!r}")
        expect((result["change_ms_count"], result["all_ms_count"]) == (changes, deaths), done.stdout)
        expect(result["limits_hold"] == (True if "--limits" in given else None), done.stdout)


def main():
    for test in (sim_options_that_do_not_go_together_are_refused, sim_options_that_go_together_are_taken,
                 sim_minutes_are_as_many_as_events_are_allowed_for, a_program_names_itself_when_it_refuses_a_rule,
                 scale_asks_nothing_of_changes_that_are_not_made, scale_says_how_many_changes_and_deaths_it_timed):
        test()
        print(f"ok {test.__name__}", flush=True)


if __name__ == "__main__":
    main()
