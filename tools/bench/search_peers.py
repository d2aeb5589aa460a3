"""A peer of tools/bench/search: runs trials of nothing, four at a time, and prints one line of JSON: version, trials, seconds, and the
events (seconds, "start" or "end") of the trials' functions.

usage: search_peers.py optuna-journal|ray|ray-reuse DIR N      (of Optuna ten times as many)"""

import json
import multiprocessing
import os
import sys
import time

WORKERS = 4


def optuna_worker(path, count, ready, go, results):
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(study_name="bench", storage=JournalStorage(JournalFileBackend(path)), sampler=optuna.samplers.RandomSampler())
    events = []

    def objective(trial):
        events.append((time.monotonic(), "start"))
        value = trial.suggest_float("x", 0, 1)
        events.append((time.monotonic(), "end"))
        return value

    ready.put(True)
    go.wait()
    study.optimize(objective, n_trials=count)
    results.put(events)


def run_optuna(directory, count):
    """Workers of their own over one journal, as Optuna's pages have it for one machine."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = os.path.join(directory, "journal.log")
    optuna.create_study(study_name="bench", storage=JournalStorage(JournalFileBackend(path)))
    context = multiprocessing.get_context("fork")
    ready, results, go = context.Queue(), context.Queue(), context.Event()
    workers = [context.Process(target=optuna_worker, args=(path, count // WORKERS, ready, go, results)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.get()
    began = time.monotonic()
    go.set()
    events = [event for _ in workers for event in results.get()]
    seconds = time.monotonic() - began
    for worker in workers:
        worker.join()
    return {"version": optuna.__version__, "trials": count // WORKERS * WORKERS, "seconds": seconds, "events": events}


def run_ray(directory, count, reuses):
    """Workers without the higher nice value that Ray gives them, and without its dashboard, telemetry and loggers."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", RAY_AUTH_MODE="disabled",
                      RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    import ray
    from ray import tune

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    path = os.path.join(directory, "marks")

    def note(what):
        with open(path, "a") as marks:
            marks.write(f"{time.monotonic()} {what}\n")

    def function(config):
        note("start")
        note("end")
        return {"loss": config["x"]}

    def fit(trials, name):
        tune.Tuner(tune.with_resources(function, {"cpu": 1}), param_space={"x": tune.uniform(0, 1)},
                   run_config=tune.RunConfig(name=name, storage_path=os.path.join(directory, "results"), verbose=0),
                   tune_config=tune.TuneConfig(num_samples=trials, max_concurrent_trials=WORKERS, metric="loss", mode="min",
                                               reuse_actors=reuses)).fit()

    fit(1, "first")  # what only a first trial pays
    os.remove(path)
    began = time.monotonic()
    fit(count, "bench")
    seconds = time.monotonic() - began
    ray.shutdown()
    with open(path) as marks:
        events = [(float(moment), what) for moment, what in map(str.split, marks)]
    return {"version": ray.__version__, "trials": count, "seconds": seconds, "events": events}


def main():
    name, directory, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    found = run_optuna(directory, 10 * count) if name == "optuna-journal" else run_ray(directory, count, name == "ray-reuse")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
