"""shoal.search: what is handed to the mesh, and what a worker makes of it."""

import contextlib
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from support import place

import shoal
from shoal import _search, _search_worker, space


def objective(run):
    run.report({"loss": 1.0}, step=7)
    return run.hparam("x", 1.0) * 2


class Space(unittest.TestCase):
    def test_helpers_write_the_configurations_words(self):
        self.assertEqual(space.uniform(0, 0.5), {"type": "double", "minval": 0.0, "maxval": 0.5})
        self.assertEqual(space.loguniform(1e-5, 0.1), {"type": "log", "base": 10, "minval": -5.0, "maxval": -1.0})
        self.assertEqual(space.integer(1, 4), {"type": "int", "minval": 1, "maxval": 4})
        self.assertEqual(space.uniform(0, 0.5, step=0.1), {"type": "double", "minval": 0.0, "maxval": 0.5, "step": 0.1})
        self.assertEqual(space.integer(16, 64, log=True), {"type": "int", "minval": 16, "maxval": 64, "log": True})
        self.assertEqual(space.integer(32, 128, step=32), {"type": "int", "minval": 32, "maxval": 128, "step": 32})
        self.assertEqual(
            space.when({"opt": "sgd"}, space.uniform(0, 1)),
            {"type": "double", "minval": 0.0, "maxval": 1.0, "when": {"opt": "sgd"}},
        )
        self.assertEqual(space.when({"n": [1, 2]}, {"a": 1}), {"type": "const", "val": {"a": 1}, "when": {"n": [1, 2]}})
        self.assertEqual(space.choice(("a", "b")), {"type": "categorical", "vals": ["a", "b"]})

    def test_bounds_that_make_no_sense_are_refused(self):
        for wrong in (
            lambda: space.uniform(1, 1),
            lambda: space.uniform(0, float("inf")),
            lambda: space.loguniform(0, 1),
            lambda: space.integer(1.5, 3),
            lambda: space.integer(3, 1),
            lambda: space.uniform(0, 1, step=0),
            lambda: space.uniform(0, 1, step=float("nan")),
            lambda: space.integer(0, 8, log=True),
            lambda: space.integer(1, 8, log=True, step=2),
            lambda: space.integer(1, 8, step=1.5),
            lambda: space.when({}, 1),
            lambda: space.choice([]),
            lambda: space.choice("relu"),
        ):
            self.assertRaises(ValueError, wrong)

    def test_what_is_searched_is_found_in_nested_maps(self):
        self.assertTrue(space.is_searched({"opt": {"lr": space.uniform(0, 1)}}))
        self.assertFalse(space.is_searched({"net": {"type": "ResNet", "depth": 50}, "lr": 0.1}))
        self.assertFalse(space.is_searched(None))


class FakeClient:
    """In the place of a client: keeps what is submitted."""

    def submit(self, config, files):
        self.config = config
        self.files = {str(path.relative_to(files)): path.read_bytes() for path in Path(files).iterdir() if path.is_file()}
        self.names = sorted(os.listdir(files))
        return types.SimpleNamespace(id="a1b2c3d4e5f60718", wait=lambda: "completed")


class Search(unittest.TestCase):
    def setUp(self):
        self.client = FakeClient()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        package = self.directory / "cloudpickle"
        package.mkdir()
        (package / "__init__.py").write_text("")
        fake = types.ModuleType("cloudpickle")
        fake.dumps, fake.__file__ = pickle.dumps, str(package / "__init__.py")
        patch = mock.patch.dict(sys.modules, {"cloudpickle": fake})
        patch.start()
        self.addCleanup(patch.stop)

    def search(self, *arguments, **named):
        with contextlib.redirect_stderr(io.StringIO()):
            return shoal.search(objective, *arguments, client=self.client, **named)

    def test_the_function_and_cloudpickle_travel(self):
        self.search({"x": space.uniform(0, 1)}, metric="score", mode="max", trials=4, slots=2, name="try")
        self.assertEqual(
            {key: self.client.config[key] for key in ("name", "searcher", "resources", "hyperparameters")},
            {
                "name": "try",
                "searcher": {"name": "random", "metric": "score", "smaller_is_better": False, "max_trials": 4},
                "resources": {"slots_per_trial": 2},
                "hyperparameters": {"x": {"type": "double", "minval": 0.0, "maxval": 1.0}},
            },
        )
        self.assertEqual(self.client.names, [".shoalignore", "cloudpickle", _search.FUNCTION_FILE])

    def test_a_sampler_and_own_values_are_the_searchers(self):
        self.search({"x": space.uniform(0, 1)}, trials=4, sampler="sobol", initial=[{"x": 0.5}])
        self.assertEqual(self.client.config["searcher"]["sampler"], "sobol")
        self.assertEqual(self.client.config["searcher"]["initial"], [{"x": 0.5}])
        self.search({"x": space.uniform(0, 1)}, trials=4, warm_start=["old", types.SimpleNamespace(id="a1b2c3d4e5f60718")])
        self.assertEqual(self.client.config["searcher"]["warm_start"], ["old", "a1b2c3d4e5f60718"])
        self.assertRaises(ValueError, self.search, {"x": 1}, warm_start=["old"])
        self.assertRaises(ValueError, self.search, {"x": 1}, sampler="sobol")
        self.assertRaises(ValueError, self.search, {"x": 1}, initial=[{"x": 1}])

    def test_a_searcher_that_stops_trials_early_is_asked_for_by_name_or_by_its_keys(self):
        drawn = {"x": space.uniform(0, 1)}
        self.search(drawn, trials=4, searcher="adaptive_asha", max_length={"epochs": 20})
        self.assertEqual(
            self.client.config["searcher"],
            {
                "name": "adaptive_asha",
                "metric": "loss",
                "smaller_is_better": True,
                "max_trials": 4,
                "max_length": {"epochs": 20},
            },
        )
        self.search(drawn, trials=4, searcher={"name": "asha", "num_rungs": 3}, max_length=90)
        keys = self.client.config["searcher"]
        self.assertEqual((keys["name"], keys["num_rungs"], keys["max_length"]), ("asha", 3, 90))
        self.assertRaises(ValueError, self.search, {"x": 1}, searcher="asha")
        self.assertRaises(ValueError, self.search, {"x": 1}, max_length=5)

    def test_files_travel_along_and_rules_do_not_leave_the_function_out(self):
        files = self.directory / "files"
        files.mkdir()
        for name, text in (("data.csv", "1"), (".gitignore", "*.tmp"), (".shoalignore", "*.pickle"), (".git", "")):
            (files / name).write_text(text)
        self.search(files=files, config={"resources": {"slot_kind": "cpu"}, "seed": 3}, python="/opt/python")
        self.assertIn("data.csv", self.client.names)
        self.assertNotIn(".git", self.client.names)
        rules = self.client.files[".shoalignore"].decode().split()
        self.assertEqual(rules, ["*.pickle", f"!/{_search.FUNCTION_FILE}", "!/cloudpickle/"])
        self.assertEqual((files / ".shoalignore").read_text(), "*.pickle")  # the user's own is as it was
        self.assertEqual(self.client.config["resources"], {"slots_per_trial": 1, "slot_kind": "cpu"})
        self.assertEqual((self.client.config["seed"], self.client.config["entrypoint"][0]), (3, "/opt/python"))
        self.assertEqual((self.client.config["searcher"]["name"], self.client.config["name"]), ("single", "objective"))

    def said_by(self, path, name):
        """Makes `path` an interpreter that says `name`, and its arguments unless it is asked for its version."""
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\necho {name} "$@"\n')
        path.chmod(0o755)
        return str(path)

    def run_entrypoint(self, directory):
        environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}
        command = ["/bin/sh", "-c", self.client.config["entrypoint"]]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout

    def test_workers_have_the_callers_interpreter_where_it_is_else_one_of_its_version(self):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        bin = self.directory / "bin"
        self.said_by(bin / version, "standard")
        own = Path(self.said_by(self.directory / "it's $HOME; a venv" / "python", "own"))
        arguments = f"-m shoal._search_worker {_search.FUNCTION_FILE} a b's"
        with mock.patch.object(sys, "executable", str(own)):
            self.search(metric="a b's")
        self.assertEqual(self.run_entrypoint(bin), f"own {arguments}\n")
        own.write_text("#!/bin/sh\nexit 1\n")  # as an interpreter of another version answers
        self.assertEqual(self.run_entrypoint(bin), f"standard {arguments}\n")
        own.unlink()
        self.assertEqual(self.run_entrypoint(bin), f"standard {arguments}\n")

    def test_requirements_are_installed_for_the_interpreter_of_the_workers(self):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        for given, environment, chosen in (
            (None, {}, version),
            ("/opt/bin/python3", {}, "/opt/bin/python3"),
            (None, {"python": "python3"}, "python3"),
        ):
            self.search(python=given, config={"environment": {"requirements": "requirements.txt", **environment}})
            self.assertEqual(
                self.client.config["environment"], {"warm": True, "requirements": "requirements.txt", "python": chosen}
            )
            self.assertEqual(self.client.config["entrypoint"][:3], ["python", "-m", "shoal._search_worker"])
        self.search(config={"environment": {"variables": {"A": "b"}}})
        self.assertEqual(self.client.config["environment"], {"warm": True, "variables": {"A": "b"}})
        self.search(config={"environment": {"warm": False}})
        self.assertEqual(self.client.config["environment"], {"warm": False})

    def test_wrong_arguments_are_refused_before_anything_travels(self):
        for named, sentence in (
            ({"mode": "least"}, 'allowed are "min" and "max"'),
            ({"space": {"x": space.uniform(0, 1)}}, "with how many trials: trials=16"),
            ({"space": {"x": 1}, "trials": 8}, "nothing in the space differs"),
        ):
            with self.assertRaisesRegex(ValueError, sentence):
                self.search(**named)
        with self.assertRaisesRegex(TypeError, "function is 3, which cannot be called; give a function of the run"):
            shoal.search(3, client=self.client)
        with self.assertRaisesRegex(shoal.ShoalError, "which is no directory"):
            self.search(files=self.directory / "nowhere")

    def test_a_missing_cloudpickle_is_one_sentence(self):
        with (
            mock.patch.dict(sys.modules, {"cloudpickle": None}),
            self.assertRaisesRegex(shoal.ShoalError, "pip install cloudpickle"),
        ):
            self.search()

    def test_a_function_that_cannot_be_shipped_is_said_to_be(self):
        with self.assertRaisesRegex(shoal.ShoalError, "The function cannot be shipped: "):
            shoal.search(lambda run: None, client=self.client)  # pickle alone cannot


class Worker(unittest.TestCase):
    def write(self, directory, version, function=objective):
        path = directory / _search.FUNCTION_FILE
        path.write_bytes(pickle.dumps({"version": version, "function": pickle.dumps(function)}))
        return str(path)

    def test_what_the_function_returns_is_reported(self):
        for function, expected in ((objective, '"metrics": {"score": 4.0}'), (several, '"metrics": {"a": 1.0, "b": 2.0}')):
            with place(SHOAL_HPARAMS='{"x": 2.0}', SHOAL_RUN_DIR="out") as directory:
                _search_worker.main([self.write(directory, sys.version_info[:2], function), "score"])
                text = (directory / "out" / "metrics.jsonl").read_text()
            self.assertIn(expected, text)
            self.assertIn('"group": "validation"', text)
            self.assertIn('"step": 7' if function is objective else '"step": 0', text.splitlines()[-1])

    def test_a_result_that_is_no_number_is_told(self):
        for function, said in ((words, "a value of type list, which is neither a number nor a dict"), (nothing, "^$")):
            out = io.StringIO()
            with place(SHOAL_RUN_DIR="out") as directory, contextlib.redirect_stderr(out):
                _search_worker.main([self.write(directory, sys.version_info[:2], function), "score"])
                self.assertFalse((directory / "out").exists())
            self.assertRegex(out.getvalue(), said)

    def test_an_objective_of_optuna_runs_as_it_is(self):
        with place(SHOAL_HPARAMS='{"lr": 0.25, "units": 8, "kind": "b"}', SHOAL_RUN_DIR="out") as directory:
            with mock.patch.object(shoal.Run, "should_stop", lambda run: run._steps.get("validation", 0) >= 2):
                _search_worker.main([self.write(directory, sys.version_info[:2], of_optuna), "accuracy"])
            lines = [json.loads(line) for line in (directory / "out" / "metrics.jsonl").read_text().splitlines()]
        found = [(line["group"], line["step"], line["metrics"]) for line in lines]
        self.assertEqual(found, [("validation", step, {"accuracy": 2.0 + step}) for step in range(3)])

    def test_a_trial_that_the_function_prunes_has_completed(self):
        with place(SHOAL_HPARAMS='{"x": 2.0}', SHOAL_RUN_DIR="out") as directory:
            _search_worker.main([self.write(directory, sys.version_info[:2], pruned), "score"])
            text = (directory / "out" / "metrics.jsonl").read_text()
        self.assertIn('"metrics": {"score": 0.5}', text)

    def test_a_function_of_another_python_is_refused(self):
        said = rf"comes from Python 2.7, .*{sys.executable}.*shoal.search\(..., python="
        with place() as directory, self.assertRaisesRegex(SystemExit, said):
            _search_worker.load(self.write(directory, (2, 7)))

    def test_a_missing_module_is_named(self):
        with place() as directory:
            path = directory / "function"
            absent = b"cabsent_module\nfunction\n."
            path.write_bytes(pickle.dumps({"version": sys.version_info[:2], "function": absent}))
            with self.assertRaisesRegex(SystemExit, f"the module absent_module, .*{sys.executable}.*python=.*files="):
                _search_worker.load(str(path))


class TrialPruned(Exception):
    """As Optuna's."""


def of_optuna(trial):
    base = trial.suggest_float("lr", 1e-5, 1.0, log=True) * trial.suggest_int("units", 1, 64)
    trial.suggest_categorical("kind", ["a", "b"])
    for step in range(10):
        trial.report(base + step, step)
        if trial.should_prune():
            raise TrialPruned
    return base


def pruned(run):
    run.report({"score": 0.5}, step=1)
    raise TrialPruned


def words(run):
    return ["good"]


def nothing(run):
    pass


def several(run):
    return {"a": 1, "b": 2}


if __name__ == "__main__":
    unittest.main()
