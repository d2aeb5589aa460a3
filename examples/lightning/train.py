"""A small network on Fashion-MNIST, trained by Lightning's Trainer.

It runs by itself, and in Shoal: there ShoalCallback reports, saves, resumes, and leaves when it is asked to.
"""

import argparse
import gzip
import os
import time

import lightning
import torch
from torch import nn

from shoal.integrations.lightning import ShoalCallback


def read_idx(directory, name, header_bytes):
    with gzip.open(os.path.join(directory, name)) as file:
        return torch.frombuffer(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)


def loader(directory, prefix, batch, **options):
    images = read_idx(directory, f"{prefix}-images-idx3-ubyte.gz", 16).view(-1, 784)
    labels = read_idx(directory, f"{prefix}-labels-idx1-ubyte.gz", 8).long()
    data = torch.utils.data.TensorDataset((images.float() / 255 - 0.286) / 0.353, labels)
    return torch.utils.data.DataLoader(data, batch_size=batch, **options)


class Classifier(lightning.LightningModule):
    def __init__(self, rate, pause):
        super().__init__()
        self.rate, self.pause = rate, pause
        self.net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))

    def on_train_start(self):
        print(f"rank {self.global_rank} of {self.trainer.world_size} begins at step {self.trainer.global_step}", flush=True)

    def training_step(self, batch, _):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("loss", loss)
        time.sleep(self.pause)
        return loss

    def validation_step(self, batch, _):
        images, labels = batch
        self.log("accuracy", (self.net(images).argmax(1) == labels).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.rate, momentum=0.9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="samples per step of each process")
    parser.add_argument("--save-every", type=int, help="steps; default: an epoch")
    parser.add_argument("--pause", type=float, default=0, help="seconds to sleep in each step, to have time to watch")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    callback = ShoalCallback(save_every=arguments.save_every)
    lightning.seed_everything(callback.run.seed % 2**32)
    trainer = lightning.Trainer(
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),  # Lightning wants the same number of processes on each host
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)),
        max_epochs=arguments.epochs,
        log_every_n_steps=10,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[callback],
    )
    model = Classifier(callback.run.hparam("rate", 0.05), arguments.pause)
    train = loader(arguments.data, "train", arguments.batch, shuffle=True, drop_last=True)
    trainer.fit(model, train, loader(arguments.data, "t10k", 1000), ckpt_path=callback.ckpt_path)
    print(f"rank {trainer.global_rank} leaves at step {trainer.global_step} {callback.run.stop_reason}", flush=True)


if __name__ == "__main__":
    main()
