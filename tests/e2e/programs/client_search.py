"""A user's script: a function of its own is searched, and what it refers to travels along."""

import json

import shoal
from shoal.space import choice, uniform

OFFSET = 10


def objective(run):
    with open("data.txt", encoding="ascii") as file:  # of the files that travelled along
        more = float(file.read())
    run.report({"loss": OFFSET + more + run.hparams["x"]}, step=1, group="validation")
    print("units", run.hparams["net"]["units"], flush=True)


if __name__ == "__main__":
    space = {"x": uniform(0, 1), "net": {"units": choice([64, 128])}}
    found = shoal.search(objective, space, metric="loss", trials=4, files="files")
    best = found.best_trial()
    print(json.dumps({"id": found.id, "state": found.state, "best": best.latest, "rows": [t.row() for t in found.trials]}))
