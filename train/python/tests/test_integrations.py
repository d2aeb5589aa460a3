"""The callbacks for Lightning and for Hugging Face's Trainer, with the frameworks themselves where they are installed."""

import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import types
import unittest
import warnings
from pathlib import Path

import support

import shoal
from shoal import _run


def has(*names):
    return all(importlib.util.find_spec(name) is not None for name in names)


def points(directory, group):
    """The reports of a group in the runs below the directory: [(step, {name: number})]."""
    lines = [json.loads(line) for file in sorted(directory.glob("**/metrics.jsonl")) for line in file.read_text().splitlines()]
    return [(line["step"], line["metrics"]) for line in lines if line["group"] == group]


class Asked(_run.Run):
    """A run as inside Shoal, that is asked to leave at a number of calls of should_stop; what it reports goes to files."""

    def __init__(self, stop_at=None):
        super().__init__()
        self.stop_at, self.calls = stop_at, 0

    @property
    def in_shoal(self):
        return True

    def should_stop(self, sync=True):
        self.calls += 1
        return self.calls == self.stop_at


class TrainingTest(unittest.TestCase):
    """Each test has an empty directory, with one for checkpoints as a worker has it."""

    def setUp(self):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)
        os.environ["TQDM_DISABLE"] = "1"
        place = support.place()
        self.directory = place.__enter__()
        self.addCleanup(place.__exit__, None, None, None)
        self.checkpoints = self.directory / "checkpoint"
        self.checkpoints.mkdir()
        os.environ["SHOAL_CHECKPOINT_DIR"] = str(self.checkpoints)

    def restore(self):
        """The next attempt begins with the newest checkpoint."""
        newest = max(self.checkpoints.iterdir(), key=lambda path: path.stat().st_ctime_ns)
        (self.directory / "restore").mkdir()
        newest.rename(self.directory / "restore" / newest.name)
        shutil.rmtree(self.checkpoints)
        self.checkpoints.mkdir()
        os.environ["SHOAL_RESTORE_DIR"] = str(self.directory / "restore")

    def kept(self):
        return sorted(path.name for path in self.checkpoints.iterdir())


class ImportTest(unittest.TestCase):
    def run_python(self, program):
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(shoal.__file__).parents[1])},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_missing_framework_is_named_with_the_command_that_installs_it(self):
        for module, missing, installs in (
            ("lightning", "'lightning', 'pytorch_lightning'", "pip install lightning"),
            ("transformers", "'transformers'", "pip install 'transformers[torch]'"),
        ):
            said = self.run_python(f"""import sys
for name in ({missing},): sys.modules[name] = None
try: import shoal.integrations.{module}
except ImportError as error: print(error)""")
            self.assertIn(f"needs the package {module}", said)
            self.assertIn(installs, said)
            self.assertEqual(len(said.splitlines()), 1, said)

    def test_the_package_of_the_callbacks_imports_no_framework(self):
        program = "import sys, shoal.integrations; print({'torch', 'numpy', 'lightning', 'transformers'} & set(sys.modules))"
        self.assertEqual(self.run_python(program).strip(), "set()")


@unittest.skipUnless(has("torch", "transformers", "accelerate"), "Hugging Face's transformers or accelerate is not installed")
class TransformersTest(TrainingTest):
    def setUp(self):
        super().setUp()
        import torch
        import transformers

        from shoal.integrations import transformers as integration

        self.torch, self.hub, self.integration = torch, transformers, integration

    def train(self, run, steps=8, **options):
        """Trains a tiny model with dropout, and returns its Trainer."""
        torch, hub = self.torch, self.hub
        hub.set_seed(3)
        config = hub.GPT2Config(
            vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0, loss_type="ForCausalLM"
        )
        words = [{"input_ids": tokens, "labels": tokens} for tokens in (torch.arange(8) + torch.arange(24)[:, None]) % 16]
        arguments = {
            "output_dir": "out",
            "max_steps": steps,
            "per_device_train_batch_size": 4,  # 6 steps an epoch
            "logging_steps": 2,
            "save_steps": 3,
            "eval_strategy": "steps",
            "eval_steps": 4,
            "report_to": [],
            "use_cpu": True,
            "disable_tqdm": True,
            "seed": 3,
            **options,
        }
        callback = self.integration.ShoalCallback(run)
        trainer = hub.Trainer(
            hub.GPT2LMHeadModel(config),
            hub.TrainingArguments(**arguments),
            train_dataset=words,
            eval_dataset=words[:4],
            callbacks=[callback],
        )
        trainer.remove_callback(hub.PrinterCallback)
        trainer.train(resume_from_checkpoint=callback.resume_from_checkpoint)
        return trainer

    def test_outside_shoal_logs_are_reported_and_checkpoints_stay_where_they_are(self):
        del os.environ["SHOAL_CHECKPOINT_DIR"]
        trainer = self.train(None)
        training, validation = (points(self.directory, group) for group in ("training", "validation"))
        self.assertEqual([step for step, metrics in training if "loss" in metrics], [2, 4, 6, 8])
        self.assertEqual([step for step, metrics in validation], [4, 8])
        losses = [log["eval_loss"] for log in trainer.state.log_history if "eval_loss" in log]
        self.assertEqual([metrics["loss"] for _, metrics in validation], losses)
        self.assertFalse([name for _, metrics in training + validation for name in metrics if name.startswith("eval_")])
        self.assertEqual(sorted(path.name for path in Path("out").iterdir()), ["checkpoint-3", "checkpoint-6", "checkpoint-8"])
        self.assertEqual(list(self.directory.glob("shoal-runs/*/checkpoints")), [])
        trainer.evaluate(metric_key_prefix="test")
        self.assertEqual([step for step, metrics in points(self.directory, "test") if "loss" in metrics], [8])

    def test_a_run_that_is_asked_to_leave_resumes_as_if_nothing_had_been(self):
        whole = self.train(Asked(), output_dir="whole")
        for path in self.checkpoints.iterdir():
            path.rename(self.directory / f"whole-{path.name}")
        first = self.train(Asked(stop_at=5))
        self.assertEqual((first.state.global_step, self.kept()), (5, ["step-3", "step-5"]))
        self.restore()
        last = self.train(Asked(), output_dir="other")  # another attempt finds nothing of the first one's
        self.assertEqual((last.state.global_step, self.kept()), (8, ["step-6", "step-8"]))
        for name, value in whole.model.state_dict().items():
            self.assertTrue(self.torch.equal(value, last.model.state_dict()[name]), name)

    def test_an_evaluation_that_is_due_does_not_hold_a_run_that_is_asked_to_leave(self):
        for options in {}, {"eval_strategy": "epoch", "save_strategy": "epoch"}:
            for path in self.checkpoints.iterdir():
                shutil.rmtree(path)
            trainer = self.train(Asked(stop_at=4), **options)
            self.assertEqual(trainer.state.global_step, 4)
            self.assertEqual(points(self.directory, "validation"), [])
            self.assertEqual(self.kept(), ["step-4"] if options else ["step-3", "step-4"])

    def test_the_last_step_is_evaluated_whatever_is_asked(self):
        trainer = self.train(Asked(stop_at=8))
        self.assertEqual(trainer.state.global_step, 8)
        self.assertEqual([step for step, _ in points(self.directory, "validation")], [4, 8])

    def test_the_generators_of_all_ranks_are_in_the_checkpoint(self):
        run = Asked()
        run.size = 2
        run.all_gather = lambda mine: [mine, {"name": "rng_state_1.pth", "data": b"one", "files": ["rng_state_1.pth"]}]
        self.save(run, "checkpoint-3")
        files = {path.name: path.read_bytes() for path in (self.checkpoints / "step-3").iterdir()}
        self.assertEqual(files, {"model.safetensors": b"weights", "rng_state_0.pth": b"zero", "rng_state_1.pth": b"one"})

    def test_another_rank_gives_its_generator_and_writes_nothing(self):
        run, given = Asked(), []
        run.size, run.rank = 2, 1
        run.all_gather = lambda mine: given.append(mine) or [{**mine, "name": "rng_state_0.pth"}, mine]
        Path("out/checkpoint-3").mkdir(parents=True)
        Path("out/checkpoint-3/rng_state_1.pth").write_bytes(b"one")
        self.save(run, None)
        self.assertEqual(given, [{"name": "rng_state_1.pth", "data": b"one", "files": ["rng_state_1.pth"]}])
        self.assertEqual(self.kept(), [])

    def test_a_checkpoint_in_parts_is_refused_with_the_part(self):
        run = Asked()
        run.size = 2
        run.all_gather = lambda mine: [mine, {"name": "rng_state_1.pth", "data": b"", "files": ["model_0/__1_0.distcp"]}]
        with self.assertRaisesRegex(shoal.CheckpointError, r"Rank 1 has written model_0/__1_0\.distcp"):
            self.save(run, "checkpoint-3")
        self.assertEqual(self.kept(), [])

    def save(self, run, name):
        """on_save of step 3, after the Trainer of rank 0 has written its files into out/NAME."""
        if name is not None:
            (Path("out") / name).mkdir(parents=True)
            (Path("out") / name / "model.safetensors").write_bytes(b"weights")
            (Path("out") / name / "rng_state_0.pth").write_bytes(b"zero")
        arguments = types.SimpleNamespace(output_dir="out", world_size=run.size)
        state = types.SimpleNamespace(global_step=3, is_hyper_param_search=False)
        self.integration.ShoalCallback(run).on_save(arguments, state, None, model=None)

    def test_ranks_that_would_train_alone_are_refused(self):
        run = Asked()
        run.size = 2
        with self.assertRaisesRegex(shoal.ShoalError, r"trains with 1 process\(es\), and the trial has 2 ranks"):
            self.train(run)

    def test_only_rank_0_reports_and_a_text_is_left_out_with_a_sentence(self):
        run, said = Asked(), []
        run._warn = said.append
        callback = self.integration.ShoalCallback(run)
        for is_first in (False, True):
            state = types.SimpleNamespace(is_world_process_zero=is_first, global_step=7)
            callback.on_log(None, state, None, logs={"loss": self.torch.tensor(2.0), "note": "warm"})
        self.assertEqual(points(self.directory, "training"), [(7, {"loss": 2.0})])
        self.assertEqual(said, ["The log 'note' of step 7 is no number, and is not reported."])


@unittest.skipUnless(has("torch", "lightning"), "Lightning is not installed")
class LightningTest(TrainingTest):
    def setUp(self):
        super().setUp()
        import lightning
        import torch

        from shoal.integrations import lightning as integration

        self.torch, self.lightning, self.integration = torch, lightning, integration

    def train(self, run, save_every=None, epochs=2, package=None, **options):
        """Trains a tiny model, 6 steps an epoch, and returns its Trainer; model.steps are the steps it has done."""
        torch, lightning = self.torch, package or self.lightning

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)
                self.steps, self.validations = [], 0

            def training_step(self, batch, _):
                self.steps.append(self.trainer.global_step)
                loss = self.layer(batch).square().mean()
                self.log("loss", loss, on_step=True, on_epoch=True)
                return loss

            def validation_step(self, batch, _):
                self.validations += not self.trainer.sanity_checking
                self.log("error", self.layer(batch).abs().mean())

            test_step = validation_step

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        torch.manual_seed(3)
        data = torch.randn(24, 2)
        self.callback = self.integration.ShoalCallback(save_every, run)
        options = {"logger": False, "enable_checkpointing": False, "log_every_n_steps": 2, **options}
        trainer = lightning.Trainer(
            accelerator="cpu",
            max_epochs=epochs,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[self.callback],
            **options,
        )
        model = Model()
        loader = torch.utils.data.DataLoader(data, 4)
        trainer.fit(model, loader, torch.utils.data.DataLoader(data, 12), ckpt_path=self.callback.ckpt_path)
        self.model = model
        return trainer

    def test_outside_shoal_metrics_and_checkpoints_go_to_its_directory(self):
        del os.environ["SHOAL_CHECKPOINT_DIR"]
        os.environ["SHOAL_RUN_DIR"] = str(self.directory / "run")
        trainer = self.train(None)
        trainer.test(self.model, self.torch.utils.data.DataLoader(self.torch.ones(4, 2), 4), verbose=False)
        self.assertEqual([sorted(metrics) for _, metrics in points(self.directory, "test")], [["epoch", "error"]])
        training, validation = (points(self.directory, group) for group in ("training", "validation"))
        self.assertEqual([step for step, metrics in training if "loss_step" in metrics], [1, 3, 5, 7, 9, 11])
        self.assertEqual(len([step for step, metrics in training if "loss_epoch" in metrics]), 2)
        self.assertEqual([sorted(metrics) for _, metrics in validation], [["epoch", "error"]] * 2)
        self.assertEqual([step for step, _ in validation], [6, 12])  # as the checkpoints
        self.assertEqual(sorted(path.name for path in Path("run/checkpoints").iterdir()), ["step-12", "step-6"])
        self.assertEqual(self.callback.ckpt_path, str(self.directory / "run/checkpoints/step-12/trainer.ckpt"))
        self.train(None, epochs=3)
        self.assertEqual(self.model.steps, [12, 13, 14, 15, 16, 17])

    def test_a_run_that_is_asked_to_leave_inside_of_an_epoch_goes_on_at_the_next_step(self):
        trainer = self.train(Asked(stop_at=8))
        self.assertEqual((trainer.global_step, self.kept(), self.model.validations), (8, ["step-6", "step-8"], 2))
        self.assertEqual(trainer.limit_val_batches, 1.0)
        means = [step for step, metrics in points(self.directory, "training") if "loss_epoch" in metrics]
        self.assertEqual(len(means), 1)
        left = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.restore()
        saved = self.torch.load(self.callback.ckpt_path, weights_only=False)["state_dict"]
        self.assertTrue(all(self.torch.equal(left[name], saved[name]) for name in left))
        self.train(Asked())
        self.assertEqual((self.model.steps, self.model.validations), ([8, 9, 10, 11], 2))
        self.assertEqual(self.kept(), ["step-12"])

    def test_a_run_that_is_asked_to_leave_at_the_end_of_an_epoch_validates_and_begins_the_next_one(self):
        self.train(Asked(stop_at=6), save_every=50)
        self.assertEqual((self.model.steps, self.model.validations, self.kept()), ([0, 1, 2, 3, 4, 5], 2, ["step-6"]))
        self.restore()
        saved = self.torch.load(self.callback.ckpt_path, weights_only=False)
        self.assertEqual(saved["loops"]["fit_loop"]["epoch_progress"]["current"]["processed"], 1)  # it knows of the validation
        trainer = self.train(Asked())
        self.assertEqual((self.model.steps, self.model.validations), ([6, 7, 8, 9, 10, 11], 2))
        self.assertEqual(trainer.current_epoch, 2)

    def test_a_minimum_of_epochs_or_steps_does_not_hold_it(self):
        for minimum in ({"min_epochs": 2}, {"min_steps": 11}):
            trainer = self.train(Asked(stop_at=2), **minimum)
            self.assertEqual(trainer.global_step, 2)

    def test_checkpoints_are_saved_each_so_many_steps_and_at_the_end(self):
        saved = []
        run = Asked()
        made = run.checkpoint_dir
        run.checkpoint_dir = lambda step: saved.append(step) or made(step)
        self.train(run, save_every=5)
        self.assertEqual((saved, self.kept()), ([5, 10, 12], ["step-10", "step-12"]))
        with self.assertRaisesRegex(ValueError, "save_every is 0"):
            self.integration.ShoalCallback(0, run)

    def test_accumulated_batches_are_one_step(self):
        run = Asked(stop_at=2)
        trainer = self.train(run, accumulate_grad_batches=3)
        self.assertEqual((run.calls, trainer.global_step, self.model.steps), (2, 2, [0, 0, 0, 1, 1, 1]))

    def test_a_validation_has_the_number_of_steps_behind_it(self):
        self.train(Asked(), val_check_interval=2, accumulate_grad_batches=3)
        self.assertEqual([step for step, _ in points(self.directory, "validation")], [0, 1, 2, 2, 3, 4])

    def test_only_rank_0_reports(self):
        run = Asked()
        run.rank = 1
        trainer = types.SimpleNamespace(testing=False, validating=False, sanity_checking=False)
        self.integration._RunLogger(run, trainer).log_metrics({"loss": 1.0}, step=1)
        self.assertEqual(points(self.directory, "training"), [])

    def test_a_checkpoint_in_parts_is_refused_and_not_kept(self):
        callback = self.integration.ShoalCallback(run=Asked())
        strategy = types.SimpleNamespace(broadcast=lambda value: value)
        trainer = types.SimpleNamespace(
            global_step=3, strategy=strategy, save_checkpoint=lambda path, weights_only: os.mkdir(path)
        )
        with self.assertRaisesRegex(shoal.CheckpointError, "has not written the checkpoint as one file"):
            callback._save(trainer)
        self.assertEqual(self.kept(), [])

    def test_a_fast_run_for_tests_is_left_alone(self):
        run = Asked(stop_at=1)
        self.train(run, fast_dev_run=2)
        self.assertEqual((run.calls, self.kept(), points(self.directory, "training")), (0, [], []))

    @unittest.skipUnless(has("pytorch_lightning"), "the package pytorch_lightning is not installed")
    def test_the_trainer_of_the_older_package_takes_it(self):
        import pytorch_lightning

        trainer = self.train(Asked(stop_at=8), package=pytorch_lightning)
        self.assertEqual((trainer.global_step, self.kept()), (8, ["step-6", "step-8"]))


if __name__ == "__main__":
    unittest.main()
