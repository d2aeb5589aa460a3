"""A search of your own: successive halving by hand, with new trials beside the best one."""

import random

import shoal


class MySearch(shoal.Searcher):
    def __init__(self) -> None:
        super().__init__()
        self.random = random.Random(1)  # of a fixed seed: after a restart the answers are the same
        self.metrics: dict[int, list[float]] = {}  # of all trials that have reported at a step
        self.best: tuple[float, int] | None = None

    def on_start(self):
        return [shoal.Create({}) for _ in range(8)]  # at random

    def on_report(self, trial, step, metric):
        rung = self.metrics.setdefault(step, [])
        rung.append(metric)
        if self.best is None or metric < self.best[0]:
            self.best = (metric, trial)
        return [shoal.Stop(trial)] if sorted(rung).index(metric) > len(rung) // 2 else []

    def on_end(self, trial, how, metric):
        if self.best is None:
            return [shoal.Create({})]
        lr = self.trials[self.best[1]]["lr"] * self.random.uniform(0.5, 2)
        return [shoal.Create({"lr": min(max(lr, 0.0001), 1.0)})]


MySearch().run()
