"""The sampler: each sample once in an epoch, over ranks, over a resume and over another number of ranks."""

import types
import unittest

import support  # noqa: F401  # puts the package on the path

try:
    import torch

    import shoal.torch
except ImportError:
    torch = None


def rank(number, size, step=0):
    run = types.SimpleNamespace(rank=number, size=size, seed=7, step=step)
    run.shard = lambda count: range(count * number // size, count * (number + 1) // size)
    return run


def epoch_of(samples, batch, size, step=0, **options):
    """The samples of each step of the next epoch, of all ranks together."""
    parts = [list(shoal.torch.Sampler(samples, batch, run=rank(r, size, step), **options)) for r in range(size)]
    return [sum((part[i] for part in parts), []) for i in range(len(parts[0]))]


@unittest.skipIf(torch is None, "PyTorch is not installed")
class SamplerTest(unittest.TestCase):
    def test_each_sample_is_taken_once_whatever_the_number_of_ranks(self):
        for samples in (64, 100, 103, 127, 128):
            for size in (1, 2, 3, 8):
                steps = epoch_of(samples, 16, size)
                self.assertEqual(sorted(sum(steps, [])), list(range(samples)))
                self.assertTrue(all(len(step) >= 16 for step in steps[:-1]))
                self.assertEqual(steps, epoch_of(samples, 16, 1))

    def test_a_run_resumes_inside_of_an_epoch_with_other_ranks(self):
        whole = epoch_of(1000, 64, 4)
        rest = epoch_of(1000, 64, 3, step=5)
        self.assertEqual(whole[5:], rest)

    def test_epochs_differ_and_follow_each_other(self):
        sampler = shoal.torch.Sampler(100, 10, run=rank(0, 1, step=13))
        self.assertEqual((sampler.epoch, len(sampler)), (1, 7))
        self.assertEqual(len(list(sampler)), 7)
        self.assertEqual((sampler.epoch, len(sampler)), (2, 10))
        self.assertNotEqual(list(sampler), list(sampler))

    def test_without_shuffle_the_order_is_the_datasets(self):
        self.assertEqual(sum(epoch_of(10, 4, 1, shuffle=False), []), list(range(10)))

    def test_a_loader_gives_the_batches_also_with_worker_processes(self):
        data = torch.utils.data.TensorDataset(torch.arange(40))
        for workers in (0, 2):
            sampler = shoal.torch.Sampler(data, 8, run=rank(1, 2))
            loader = torch.utils.data.DataLoader(data, batch_sampler=sampler, num_workers=workers)
            seen = [batch[0].tolist() for batch in loader]
            self.assertEqual(seen, list(shoal.torch.Sampler(data, 8, run=rank(1, 2))))

    def test_a_batch_too_small_for_the_ranks_is_refused(self):
        with self.assertRaisesRegex(ValueError, "8 ranks need at least 16"):
            shoal.torch.Sampler(100, 8, run=rank(0, 8))
        with self.assertRaisesRegex(ValueError, "1 to 100"):
            shoal.torch.Sampler(100, 200, run=rank(0, 1))


if __name__ == "__main__":
    unittest.main()
