"""The names of Determined's Core API: outside Shoal, and what a worker's environment says."""

from __future__ import annotations

import json
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import support  # noqa: F401  # puts the package on the path

import shoal.determined as det
from shoal import CheckpointError, _run

WORKER = {
    "SHOAL_SOCKET": "/nowhere",
    "SHOAL_TRIAL": "3",
    "SHOAL_EXPERIMENT": "00112233aabbccdd",
    "SHOAL_HPARAMS": '{"lr": 0.5, "net": {"width": 8}}',
    "RANK": "1",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.7",
}


class Info(unittest.TestCase):
    def test_there_is_none_outside_shoal(self) -> None:
        with mock.patch.dict(os.environ, clear=True):
            self.assertIsNone(det.get_cluster_info())

    def test_a_worker_is_a_container_with_one_slot_and_is_not_connected(self) -> None:
        with mock.patch.dict(os.environ, WORKER, clear=True):
            info = det.get_cluster_info()
        assert info is not None
        self.assertEqual((info.trial.trial_id, info.trial.experiment_id), (3, "00112233aabbccdd"))
        self.assertEqual(info.trial.hparams, {"lr": 0.5, "net": {"width": 8}})
        self.assertEqual((info.slot_ids, info.container_rank), ([1], 1))
        self.assertEqual(info.container_addrs, ["10.0.0.7", "10.0.0.7"])
        self.assertIsNone(info.latest_checkpoint)


class Context(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(place.name)
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(self.close_run)
        for name in list(os.environ):
            if name.startswith("SHOAL_") or name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
                del os.environ[name]

    def close_run(self) -> None:
        if _run._current is not None:
            _run._current.close()

    def test_metrics_go_to_their_groups(self) -> None:
        with det.core.init() as context:
            context.train.report_training_metrics(steps_completed=4, metrics={"x": 1})
            context.train.report_validation_metrics(steps_completed=5, metrics={"x": 2})
            context.train.report_progress(0.5)
            with self.assertRaises(ValueError):
                context.train.report_progress(1.5)
            self.assertFalse(context.preempt.should_preempt())
        (file,) = Path().glob("shoal-runs/**/metrics.jsonl")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        self.assertEqual(
            [(line["group"], line["step"], line["metrics"]) for line in lines],
            [("training", 4, {"x": 1}), ("validation", 5, {"x": 2})],
        )

    def test_a_stored_path_is_restored_with_its_metadata(self) -> None:
        os.environ["SHOAL_CHECKPOINT_DIR"] = str(Path("kept").absolute())
        os.mkdir("kept")
        with det.core.init() as context:
            with context.checkpoint.store_path({"steps_completed": 7}) as (path, name):
                (path / "state").write_text("seven")
            self.assertTrue(name)
            with context.checkpoint.store_path({"steps_completed": 10}) as (path, _):
                (path / "state").write_text("ten")
            kept = Path("kept").absolute() / "step-10"
            with self.assertRaises(CheckpointError), context.checkpoint.restore_path(str(kept)):
                pass
            os.environ["SHOAL_RESTORE_DIR"] = str(kept.parent)
            with mock.patch.dict(os.environ, {"SHOAL_SOCKET": "/nowhere"}):
                info = det.get_cluster_info()
            assert info is not None
            self.assertEqual(info.latest_checkpoint, str(kept))
            with context.checkpoint.restore_path(str(kept)) as found:
                self.assertEqual((found / "state").read_text(), "ten")
            self.assertEqual(context.checkpoint.get_metadata(str(kept)), {"steps_completed": 10})

    def test_ranks_have_to_be_those_of_the_run(self) -> None:
        with det.core.init(distributed=det.core.DistributedContext(rank=0, size=1)) as context:
            self.assertEqual(context.distributed.allgather([1, "a"]), [[1, "a"]])
            self.assertEqual(context.distributed.gather(2), [2])
            self.assertEqual(context.distributed.broadcast({"a": None}), {"a": None})
        with self.assertRaisesRegex(ValueError, "rank 1 of 2.*rank 0 of 1"):
            det.core.init(distributed=det.core.DistributedContext(rank=1, size=2))


if __name__ == "__main__":
    unittest.main()
