"""A search of its own for case_custom.py: successive halving by hand. Writes each event of each life into a file of its own."""

import os
import sys

import shoal

FILE = os.path.join(sys.argv[1], f"{os.getpid()}-{os.path.basename(os.environ['SHOAL_DIR'])}")


class Halving(shoal.Searcher):
    """Of the trials that have reported at a step, the better half goes on."""

    def __init__(self):
        super().__init__()
        self.reports = {}

    def note(self, *event):
        with open(FILE, "a") as file:
            file.write(" ".join(str(part) for part in event) + "\n")

    def on_start(self):
        self.note("start")
        return [shoal.Create({"x": round(0.1 * i, 1)}) for i in range(6)]

    def on_report(self, trial, step, metric):
        self.note("report", trial, step, metric, self.trials[trial]["x"], len(self.trials))
        rung = self.reports.setdefault(step, [])
        rung.append(metric)
        if sorted(rung).index(metric) >= (len(rung) + 1) // 2:
            return [shoal.Stop(trial)]
        return []

    def on_end(self, trial, how, metric):
        self.note("end", trial, how, metric, len(self.trials))
        if len(self.trials) < 12:
            return [shoal.Create({"x": round(self.trials[trial]["x"] / 2 + 0.01, 6)})]
        return []


Halving().run()
