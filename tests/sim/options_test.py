#!/usr/bin/python3
"""What the simulator's programs cannot use they name in one sentence, at once. usage: options_test.py BUILD_DIRECTORY"""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv[1]).resolve()
BOUND_S = 60
UNASKED_S = 93  # how long a row of tools/scale is observed while it is idle and changes are made


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def run(command):
    """A program of the build, or one of tools/."""
    program, *words = command.split()
    path = ROOT / program if program.startswith("tools/") else BUILD / program
    return subprocess.run([str(path), *words], capture_output=True, text=True, timeout=BOUND_S)


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


def the_week_takes_the_orders_that_it_knows():
    must_take("week_bench --order fifo --seed 2 --load 0.1 --faults --json")
    must_refuse("week_bench --order lottery",
                "week_bench: --order is 'lottery'; allowed are fifo, slurm, determined, before, slots, deficit, ideal.")


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


def tools_scale_names_what_it_cannot_use():
    for option, sentence in (
            ("--nodes 1", "--nodes is '1'; allowed are whole numbers from 2 to 1000."),
            ("--loss 100", "--loss is '100'; allowed are numbers from 0 to 90."),
            ("--jobs 0", "--jobs is '0'; allowed are whole numbers from 1 to 1024."),
            ("--seed -1", "--seed is '-1'; allowed are whole numbers from 0 to 18446744073709551615."),
            ("--node-hours -1", "--node-hours is '-1'; allowed are numbers from 0 to 1000000."),
            ("--nodes 8 --node-hours 9000", "--node-hours is 9000; 8 nodes can be observed for 8000 at most."),
            ("--build nosuch", "nosuch has no scale; build it with tools/setup, or give --build."),
            (f"--lines {__file__}", f"--lines {__file__} holds what is not of this version of scale; give another file."),
            ("--out /nosuch/out", "--out /nosuch/out cannot be written, for its folder is not there; make the folder, or give another.")):
        must_refuse(f"tools/scale {option}" + " --list" * ("--build" not in option), f"tools/scale: {sentence}")


def tools_scale_makes_the_table_of_the_docs():
    """The rows of docs/scale.md, observed for as long as was asked for; how much longer follows from the idle time and the changes."""
    wanted = []
    for line in (ROOT / "docs" / "scale.md").read_text().splitlines():
        row = re.match(r"\| ([\d,]+) \| (datagram|stream) \| (\d+) % \|.* / (\d+) h\) \|", line)
        if row:
            wanted.append((int(row[1].replace(",", "")), row[2], int(row[3]), int(row[4])))
    planned = []
    for line in run("tools/scale --list").stdout.splitlines():
        words = line.split()
        nodes, model, loss, minutes, seed = (words[words.index(f"--{name}") + 1] for name in ("nodes", "model", "loss", "minutes", "seed"))
        hours = float(minutes) * int(nodes) / 60
        planned.append((int(nodes), model, int(loss), round(hours + int(nodes) * UNASKED_S / 3600), int(seed)))
        expect(("--limits" in words) == (loss == "0" or (model, loss) == ("stream", "5")), line)
    pairs = list(zip(sorted(wanted), sorted(planned)))
    expect(wanted and len(wanted) == len(planned) and all(made[:3] == row[:3] and abs(made[3] - row[3]) <= 0.03 * row[3] for made, row in pairs),
           f"{sorted(planned)} for {sorted(wanted)}")
    expect([row[4] for row in sorted(planned) if row[4] != 1] == [2], "one row has a seed of its own")


def tools_scale_fails_where_a_limit_does_not_hold():
    with tempfile.TemporaryDirectory() as build:
        figures = json.loads(run("scale --nodes 2 --minutes 3 --changes 1 --deaths 1 --limits").stdout)
        fake = Path(build) / "scale"
        for holds, status in ((True, 0), (False, 1)):
            fake.write_text(f"#!/bin/sh\necho '{json.dumps(figures | {'limits_hold': holds})}'\n")
            fake.chmod(0o755)
            done = run(f"tools/scale --build {build} --nodes 2 --model stream --loss 5 --jobs 1")
            expect(done.returncode == status and "| 2 | datagram | 0 %" in done.stdout, f"status {done.returncode}: {done.stderr}")
            expect(("a limit of scale --limits does not hold" in done.stderr) != holds, done.stderr)
        for loss, status in ((10, 1), (30, 0)):  # where living nodes are taken for dead
            fake.write_text(f"#!/bin/sh\necho '{json.dumps(figures | {'loss_percent': loss, 'false_deaths': 1})}'\n")
            done = run(f"tools/scale --build {build} --nodes 2 --model stream --loss {loss} --jobs 1")
            expect(done.returncode == status and f"| {loss} % |" in done.stdout, f"{loss} %: status {done.returncode}: {done.stderr}")


def tools_sim_bugs_builds_nothing_for_what_it_cannot_use():
    for option, sentence in (
            ("--seeds 0", "--seeds is '0'; allowed are whole numbers from 1 to 1000000."),
            ("--ranges 17", "--ranges is '17'; allowed are whole numbers from 1 to 16."),
            ("--jobs x", "--jobs is 'x'; allowed are whole numbers from 1 to 64."),
            ("--bug nosuch", "no rule that can be broken is called 'nosuch'; build/release/sim_bugs --list names them."),
            ("--bug 9999", "no rule that can be broken is called '9999'; build/release/sim_bugs --list names them."),
            ("--seeds", "--seeds lacks its value; see tools/sim-bugs --help."),
            ("--nosuch", "there is no option '--nosuch'; tools/sim-bugs --help lists them.")):
        must_refuse(f"tools/sim-bugs {option}", f"tools/sim-bugs: {sentence}")


def sweep():
    """tools/sim-sweep as a module."""
    loader = importlib.machinery.SourceFileLoader("sweep", str(ROOT / "tools" / "sim-sweep"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("sweep", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def tools_sim_sweep_takes_no_part_in_which_a_process_was_ended():
    tool = sweep()
    told = "5 of 6 seeds, 10 events, 1.0 s: FAILED"
    for said, part in (
            ("in seed 3, which the core itself stopped:\n       2  some_mark\n" + told, "only 5 ran to their end (it stopped in seed 3, which"),
            ("       2  some_mark\n" + told, "of the 6 seeds from 1 on only 5 ran to their end; "), ("", "only 0 ran to their end; "),
            ("3 of 3 seeds, 10 events, 1.0 s: all invariants hold", "only 3 ran to their end; ")):
        with tempfile.TemporaryDirectory() as folder:
            program, part_file = Path(folder) / "program", Path(folder) / "part.txt"
            program.write_text(f"#!/bin/sh\ncat <<'.'\n{said}\n.\nkill -9 $$\n")
            program.chmod(0o755)
            try:
                tool.run_part(program, 1, 6, 2, part_file)
                raise AssertionError(f"taken: {said}")
            except SystemExit as refusal:
                expect(part in str(refusal), f"{refusal} does not say {part!r}")
            expect(not part_file.exists(), f"it counts as done: {said}")


def tools_sim_sweep_keeps_out_of_the_way_of_a_process_that_a_killed_sweep_left():
    tool = sweep()
    with tempfile.TemporaryDirectory() as folder:
        program, part_file = Path(folder) / "program", Path(folder) / "1+6.txt"
        program.write_text("#!/bin/sh\necho '6 of 6 seeds, 10 events, 1.0 s: all invariants hold'\n")
        program.chmod(0o755)
        left = []
        tool.subprocess = types.SimpleNamespace(STDOUT=subprocess.STDOUT, run=lambda _, stdout, **__: left.append(os.dup(stdout.fileno())))
        try:
            tool.run_part(program, 1, 6, 2, part_file)
            raise AssertionError("a part of which nothing ran is taken")
        except SystemExit:
            pass
        tool.subprocess, tool.os = subprocess, types.SimpleNamespace(getpid=lambda: os.getpid() + 1)
        tool.run_part(program, 1, 6, 2, part_file)
        os.write(left[0], b"seed 2 breaks invariant 3\n")
        os.close(left[0])
        expect(part_file.read_text() == "6 of 6 seeds, 10 events, 1.0 s: all invariants hold\n", part_file.read_text())


def tools_sim_sweep_does_not_count_a_part_that_an_older_one_left_short():
    tool = sweep()
    with tempfile.TemporaryDirectory() as folder:
        tool.ROOT, tool.sources = Path(folder), lambda: "x"
        part_file = Path(folder) / "build" / "sweep" / "x" / "1+6.txt"
        part_file.parent.mkdir(parents=True)
        part_file.write_text("5 of 6 seeds, 10 events, 1.0 s: FAILED\n")
        sys.argv = ["sim-sweep", "--seeds", "6"]
        try:
            tool.main()
            raise AssertionError("it is taken")
        except SystemExit as refusal:
            expect(str(refusal) == f"tools/sim-sweep: of the 6 seeds from 1 on only 5 ran to their end; {part_file} has what was said, "
                   "remove it to run them again.", f"{refusal}")


def tools_sim_sweep_counts_seeds_that_break_an_invariant_and_goes_on():
    tool = sweep()
    line = "seed 2 breaks invariant 3: twice; commit x: sim --seed 2"
    with tempfile.TemporaryDirectory() as folder:
        program, part_file = Path(folder) / "program", Path(folder) / "part.txt"
        program.write_text(f"#!/bin/sh\ncat <<'.'\n{line}\n  4  1: a premise\n  2  some_mark\n6 of 6 seeds, 10 events, 1.0 s: FAILED\n.\nexit 1\n")
        program.chmod(0o755)
        tool.run_part(program, 1, 6, 2, part_file)
        counts = tool.Counts()
        expect(counts.add(part_file) == "6 seeds, 1 s, 1 failed", "what it says of the part")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            expect(counts.report() == [line] and "FAILED" in out.getvalue(), out.getvalue())


def main():
    for test in (sim_options_that_do_not_go_together_are_refused, sim_options_that_go_together_are_taken, the_week_takes_the_orders_that_it_knows,
                 sim_minutes_are_as_many_as_events_are_allowed_for, a_program_names_itself_when_it_refuses_a_rule,
                 scale_asks_nothing_of_changes_that_are_not_made, scale_says_how_many_changes_and_deaths_it_timed,
                 tools_scale_names_what_it_cannot_use, tools_scale_makes_the_table_of_the_docs,
                 tools_scale_fails_where_a_limit_does_not_hold, tools_sim_bugs_builds_nothing_for_what_it_cannot_use,
                 tools_sim_sweep_takes_no_part_in_which_a_process_was_ended,
                 tools_sim_sweep_keeps_out_of_the_way_of_a_process_that_a_killed_sweep_left,
                 tools_sim_sweep_does_not_count_a_part_that_an_older_one_left_short,
                 tools_sim_sweep_counts_seeds_that_break_an_invariant_and_goes_on):
        test()
        print(f"ok {test.__name__}", flush=True)


if __name__ == "__main__":
    main()
