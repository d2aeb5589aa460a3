"""A tiny GPT-2 that learns to add two numbers, trained by the Trainer of Hugging Face's transformers. It downloads nothing.

It runs by itself, and in Shoal: there ShoalCallback reports, saves, resumes, and leaves when it is asked to.
"""

import argparse
import time

import torch
import transformers

from shoal.integrations.transformers import ShoalCallback

CHARACTERS = "0123456789+=;"
LENGTH = 12  # 47+85=132;;;


class Sums(torch.utils.data.Dataset):
    """All sums of two numbers below 100, as "47+85=132", filled up with ";"; each tenth is for the evaluation."""

    def __init__(self, is_evaluation):
        self.numbers = [n for n in range(10000) if (n * 7 % 10 == 0) == is_evaluation]

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        a, b = divmod(self.numbers[index], 100)
        tokens = torch.tensor([CHARACTERS.index(c) for c in f"{a}+{b}={a + b}".ljust(LENGTH, ";")])
        return {"input_ids": tokens, "labels": tokens}


class Pause(transformers.TrainerCallback):
    def __init__(self, seconds):
        self.seconds = seconds

    def on_train_begin(self, args, state, control, **_others):
        print(f"rank {args.process_index} of {args.world_size} begins at step {state.global_step}", flush=True)

    def on_step_begin(self, *_arguments, **_others):
        time.sleep(self.seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32, help="samples per step of each process")
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    parser.add_argument("--pause", type=float, default=0, help="seconds to sleep in each step, to have time to watch")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    callback = ShoalCallback()
    seed = callback.run.seed % 2**32
    transformers.set_seed(seed)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=len(CHARACTERS), n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4, bos_token_id=12, eos_token_id=12
        )
    )
    training = transformers.TrainingArguments(
        output_dir="out",
        max_steps=arguments.steps,
        learning_rate=callback.run.hparam("rate", 1e-3),
        per_device_train_batch_size=arguments.batch,
        per_device_eval_batch_size=500,
        eval_strategy="steps",
        eval_steps=arguments.save_every,
        save_steps=arguments.save_every,
        save_total_limit=1,
        logging_steps=10,
        seed=seed,
        report_to=[],
        use_cpu=not torch.cuda.is_available(),
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(
        model,
        training,
        train_dataset=Sums(is_evaluation=False),
        eval_dataset=Sums(is_evaluation=True),
        callbacks=[callback, Pause(arguments.pause)],
    )
    trainer.train(resume_from_checkpoint=callback.resume_from_checkpoint)
    print(f"rank {training.process_index} leaves at step {trainer.state.global_step} {callback.run.stop_reason}", flush=True)


if __name__ == "__main__":
    main()
