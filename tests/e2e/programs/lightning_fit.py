"""A Lightning script: its Trainer finds the ranks by itself."""

import lightning
import torch


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    lightning.seed_everything(3)
    inputs = torch.randn(256, 8)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=1, num_nodes=2, strategy="ddp", logger=False,
                                enable_progress_bar=False, enable_checkpointing=False)
    trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=16))
    print(f"DONE {trainer.global_rank} of {trainer.world_size}, {trainer.global_step} steps", flush=True)


if __name__ == "__main__":
    main()
