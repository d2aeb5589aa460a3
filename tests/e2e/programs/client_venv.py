"""A user's script in a virtual environment: one search uses a module that is there only, and one fails."""

import json

import shoal


def objective(run):
    import only_here

    return only_here.VALUE


def broken(run):
    return 1 / 0


if __name__ == "__main__":
    best = shoal.search(objective).best_trial()
    failed = shoal.search(broken, config={"max_restarts": 0})
    try:
        failed.best_trial()
    except shoal.NotFound as error:
        print(json.dumps({"best": best.latest, "said": str(error), "id": failed.id, "row": failed.trial(0).row()}))
