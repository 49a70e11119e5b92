"""A small network on scikit-learn's digits (1,797 images of 8x8), trained by PyTorch on one thread."""

import argparse
import json

import torch
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, required=True)
parser.add_argument("--momentum", type=float, required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--updates", type=int, default=2000)
args = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(args.seed)
digits = load_digits()
pixels = torch.tensor(digits.data, dtype=torch.float32) / 16.0
labels = torch.tensor(digits.target)
train, val = slice(0, 1400), slice(1400, None)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate, momentum=args.momentum, nesterov=True)
loss_of = torch.nn.functional.cross_entropy

next_look, update, order = 1, 0, torch.empty(0, dtype=torch.long)
while update < args.updates:
    if len(order) < args.batch:
        order = torch.cat([order, torch.randperm(1400)])
    batch, order = order[: args.batch], order[args.batch :]
    optimizer.zero_grad()
    loss = loss_of(model(pixels[train][batch]), labels[train][batch])
    loss.backward()
    optimizer.step()
    update += 1
    if update >= next_look:
        with torch.no_grad():
            error = (model(pixels[val]).argmax(1) != labels[val]).float().mean().item()
        # A loss that is NaN is printed as NaN and makes the trial infeasible.
        print(json.dumps({"updates": update, "train.loss": loss.item(), "val.error": error}), flush=True)
        next_look = max(update + 1, int(update * 1.03))
