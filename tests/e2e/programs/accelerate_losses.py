"""A script for Hugging Face Accelerate: a regression on data of its own."""

import torch
from accelerate import Accelerator


def main():
    accelerator = Accelerator()
    torch.manual_seed(3)
    inputs = torch.randn(256, 8)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    loader = torch.utils.data.DataLoader(data, batch_size=16)
    model = torch.nn.Linear(8, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimiser, loader = accelerator.prepare(model, optimiser, loader)
    seen = 0
    for _ in range(3):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimiser.step()
            optimiser.zero_grad()
            seen += len(x)
    total = accelerator.reduce(torch.tensor(float(seen), device=accelerator.device), reduction="sum").item()
    print(f"DONE {accelerator.process_index} of {accelerator.num_processes}, {int(total)} samples, loss {loss.item():.6f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
