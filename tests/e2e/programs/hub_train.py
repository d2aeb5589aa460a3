"""Trains a tiny language model by the Trainer of Hugging Face's transformers, which saves a directory each few steps and goes on from
the newest one; at the end save_pretrained writes the model in several files. It downloads nothing.

usage: hub_train.py STEPS PAUSE_S"""

import os
import sys
import time

import torch
import transformers


class Pause(transformers.TrainerCallback):
    def __init__(self, seconds):
        self.seconds = seconds

    def on_step_end(self, *_, **__):
        time.sleep(self.seconds)


class Words(torch.utils.data.Dataset):
    """The same sixteen tokens over and over, begun at each place."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        tokens = torch.arange(index, index + 16) % 32
        return {"input_ids": tokens, "labels": tokens}


def main():
    steps, pause_s = int(sys.argv[1]), float(sys.argv[2])
    transformers.set_seed(3)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=2, n_head=2,
                                                                 bos_token_id=0, eos_token_id=0))
    arguments = transformers.TrainingArguments(output_dir="out", max_steps=steps, per_device_train_batch_size=4, save_steps=1,
                                               save_total_limit=2, logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True)
    trainer = transformers.Trainer(model, arguments, train_dataset=Words(), callbacks=[Pause(pause_s)])
    newest = transformers.trainer_utils.get_last_checkpoint("out") if os.path.isdir("out") else None
    print(f"goes on from {newest}" if newest else "begins", flush=True)
    trainer.train(resume_from_checkpoint=newest)
    model.save_pretrained("out/model", max_shard_size="10KB")
    total = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"is done after {trainer.state.global_step} steps with {total!r}", flush=True)


if __name__ == "__main__":
    main()
