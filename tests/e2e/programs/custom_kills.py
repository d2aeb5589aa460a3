"""A search of its own for case_search_kills.py, which creates as many trials as its second argument says: it stops trials by
their own reports and by those of others, and creates trials with given values and with drawn ones. Writes each event of each
life into a file of its own, in the directory that its first argument names, if it names one."""

import json
import os
import sys

import shoal

DIRECTORY, TRIALS = sys.argv[1], int(sys.argv[2])
SIDE_BY_SIDE = 8


class Kills(shoal.Searcher):
    def __init__(self):
        super().__init__()
        self.reports = {}  # step -> [(metric, trial)]
        self.open = {}  # trial -> its last metric
        self.created = 0

    def note(self, kind, *event):
        if DIRECTORY:
            path = os.path.join(DIRECTORY, f"{os.getpid()}-{os.path.basename(os.environ['SHOAL_DIR'])}")
            with open(path, "a") as file:
                file.write(" ".join(map(str, (kind, *event, len(self.trials)))) + "\n")

    def told(self, kind, trial, what, metric):
        self.note(kind, trial, what, metric, json.dumps(self.trials[trial], sort_keys=True))

    def create(self, *values):
        values = values[: TRIALS - self.created]
        self.created += len(values)
        return [shoal.Create(value) for value in values]

    def on_start(self):
        self.note("start")
        return self.create({}, *({"x": i / 8, "c": "two"} for i in range(1, SIDE_BY_SIDE)))

    def on_report(self, trial, step, metric):
        self.told("report", trial, step, metric)
        rung = self.reports.setdefault(step, [])
        rung.append((metric, trial))
        self.open[trial] = metric
        place = sorted(rung).index((metric, trial))
        if place * 2 > len(rung):
            return [shoal.Stop(trial)]
        worst = max(self.open, key=lambda other: (self.open[other], other))
        if place == 0 and step > 1 and worst != trial:
            return [shoal.Stop(worst)]
        return []

    def on_end(self, trial, how, metric):
        self.told("end", trial, how, metric)
        self.open.pop(trial, None)
        best = min(min(rung) for rung in self.reports.values())[1] if self.reports else trial
        near = {**self.trials[best], "x": round(self.trials[best]["x"] * 0.9 + 0.05 * (self.created % 3), 6)}
        near.pop("m", None)
        return self.create(near if self.created % 4 else {})


Kills().run()
