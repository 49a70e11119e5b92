"""The recipe of the built-in plan `cifar10-airbench94-muon` in PyTorch, f32 and channels-last on a CPU, for comparing times.

usage: airbench_muon.py CIFAR-10-FOLDER [--epochs 8] [--updates N] [--threads 2] [--seed 1] [--compile] [--json]

CIFAR-10-FOLDER holds the authors' binary batches. The recipe and its constants are those that Jordan published
(airbench94_muon, 2024); the program is our own: filters that whiten 2x2 patches, from the first 5000 images; three
groups of two convolutions; convolutions by Muon with three Newton-Schulz rounds, each filter bank kept at the norm of
the root of its outputs; biases and head by Nesterov on the summed loss; labels smoothed by 0.2; reflected borders of 2,
flips that alternate by epoch; rates falling to zero, the whitening bias's within three epochs (the plan has it at the
common rate until then). A plain evaluation after each epoch, and one over flips and shifts at the end.

Prints a line an epoch on stderr, then a summary; with --json one object on stdout: losses of the first updates, seconds of
every epoch's training (augmentation included) and evaluation, of whitening and of the last evaluation, accuracies,
versions. Reading files and building the network are in none of them. Install PyTorch with pip; not run in CI.
"""
import argparse, json, math, pathlib, platform, sys, time

import torch
from torch import nn
from torch.nn import functional as F

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
BATCH, BORDER, SMOOTHING = 2000, 2, 0.2
WIDTHS = (64, 256, 256)
FILTER_RATE, FILTER_MOMENTUM, ROUNDS = 0.24, 0.6, 3
# Rates of the summed loss; decay for each example of the batch, apart from the rate.
BIAS_RATE, HEAD_RATE, MOMENTUM, DECAY = 0.053, 0.67, 0.85, 2e-6
WHITEN_IMAGES, WHITEN_EPS, WHITEN_EPOCHS = 5000, 5e-4, 3


def read(files):
    """Normalised images [N, 3, 32, 32] and classes [N] of binary batches: a byte of class, then planes of 1024 bytes."""
    rows = torch.cat([torch.frombuffer(bytearray(f.read_bytes()), dtype=torch.uint8).view(-1, 3073) for f in files])
    images = rows[:, 1:].reshape(-1, 3, 32, 32).float() / 255
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    return ((images - mean) / std).contiguous(memory_format=torch.channels_last), rows[:, 0].long()


class Group(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.second = (nn.Conv2d(c, outputs, 3, padding=1, bias=False) for c in (inputs, outputs))
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4) for _ in range(2))
        for conv in (self.first, self.second):
            # As many filters as there are channels pass those on; the rest stay random.
            nn.init.dirac_(conv.weight.data[: conv.in_channels])
        for norm in self.norms:
            norm.weight.requires_grad_(False)

    def forward(self, x):
        x = F.gelu(self.norms[0](F.max_pool2d(self.first(x), 2)))
        return F.gelu(self.norms[1](self.second(x)))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad_(False)
        self.groups = nn.Sequential(*(Group(i, o) for i, o in zip((24, *WIDTHS), WIDTHS)))
        self.head = nn.Linear(WIDTHS[-1], 10, bias=False)
        self.head.weight.data /= self.head.weight.data.std()

    def forward(self, x):
        x = self.groups(F.gelu(self.whiten(x)))
        return self.head(x.amax(dim=(2, 3))) / WIDTHS[-1]


@torch.no_grad()
def whiten(network, images):
    """Sets the first filters: principal directions of all 2x2 patches over the roots of their moments, and their negatives."""
    patches = F.unfold(images.contiguous(), 2).transpose(1, 2).reshape(-1, 12)
    moments, directions = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (directions / (moments + WHITEN_EPS).sqrt()).T.reshape(-1, 3, 2, 2)
    network.whiten.weight.copy_(torch.cat((filters, -filters)))


class Muon(torch.optim.Optimizer):
    """Steps along nearly orthogonal directions, of filters kept at the norm of the root of their number."""

    def __init__(self, filters):
        super().__init__(filters, dict(lr=FILTER_RATE))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                velocity = self.state[w].setdefault("velocity", torch.zeros_like(w))
                velocity.mul_(FILTER_MOMENTUM).add_(w.grad)
                direction = (w.grad + FILTER_MOMENTUM * velocity).flatten(1)
                w.mul_(math.sqrt(len(w)) / w.norm())
                w.sub_(group["lr"] * orthogonal(direction).view(w.shape))


def orthogonal(g):
    """Brings the singular values of a matrix near 1 by rounds of an odd polynomial of degree five."""
    x = g / (g.norm() + 1e-7)
    if turned := len(x) > x.shape[1]:
        x = x.T
    for _ in range(ROUNDS):
        square = x @ x.T
        x = 3.4445 * x + (2.0315 * square @ square - 4.7750 * square) @ x
    return x.T if turned else x


def batches(padded, labels, flipped, epoch):
    """One epoch's batches: shuffled, cropped at random places, flipped as the first epoch drew it, every second time not."""
    windows = padded.unfold(2, 32, 1).unfold(3, 32, 1)
    order = torch.randperm(len(labels))
    for rows in order[: len(order) // BATCH * BATCH].split(BATCH):
        down, right = torch.randint(0, 2 * BORDER + 1, (2, len(rows)))
        images = windows[rows, :, down, right]
        turn = flipped[rows] ^ (epoch % 2 == 1)
        images = torch.where(turn.view(-1, 1, 1, 1), images.flip(-1), images)
        yield images.contiguous(memory_format=torch.channels_last), labels[rows]


def plain(network, images):
    return network(images)


def views(network, images):
    """Logits over six views: as it is for half, shifted by a pixel up left and down right for a quarter each, mirrored too."""

    def mirrored(x):
        return (network(x) + network(x.flip(-1))) / 2

    border = F.pad(images, (1,) * 4, "reflect")
    shifted = [border[:, :, at : at + 32, at : at + 32].contiguous(memory_format=torch.channels_last) for at in (0, 2)]
    return mirrored(images) / 2 + sum(mirrored(x) for x in shifted) / 4


@torch.no_grad()
def accuracy(network, images, labels, logits):
    network.eval()
    right = sum((logits(network, x).argmax(1) == y).sum().item() for x, y in zip(images.split(BATCH), labels.split(BATCH)))
    network.train()
    return right / len(labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--updates", type=int, help="end after so many, without evaluation")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    images, labels = read([args.data / f"data_batch_{i}.bin" for i in range(1, 6)])
    test_images, test_labels = read([args.data / "test_batch.bin"])
    network = Network().to(memory_format=torch.channels_last)
    run = torch.compile(network) if args.compile else network
    if args.compile:
        # So that compiling is in no epoch.
        F.cross_entropy(run(images[:BATCH]), labels[:BATCH]).backward()
        network.zero_grad(set_to_none=True)
        for norm in (n for group in network.groups for n in group.norms):
            norm.reset_running_stats()

    decay = DECAY * BATCH
    biases = [p for name, p in network.named_parameters() if "norms" in name and p.requires_grad]
    plans = [([network.whiten.bias], BIAS_RATE), (biases, BIAS_RATE), ([network.head.weight], HEAD_RATE)]
    rest = torch.optim.SGD(
        [dict(params=p, lr=rate, weight_decay=decay / rate, first=rate) for p, rate in plans],
        momentum=MOMENTUM, nesterov=True,
    )
    muon = Muon([p for p in network.groups.parameters() if p.dim() == 4])
    per_epoch = len(labels) // BATCH
    total, whitening_ends = per_epoch * args.epochs, per_epoch * WHITEN_EPOCHS

    start = time.perf_counter()
    whiten(network, images[:WHITEN_IMAGES])
    whiten_seconds = time.perf_counter() - start
    start = time.perf_counter()
    padded = F.pad(images, (BORDER,) * 4, "reflect")
    flipped = torch.rand(len(labels)) < 0.5
    prepare_seconds = time.perf_counter() - start

    update, losses, epochs = 0, [], []
    for epoch in range(args.epochs):
        start = time.perf_counter()
        for x, y in batches(padded, labels, flipped, epoch):
            if update == whitening_ends:
                network.whiten.bias.requires_grad_(False)
            loss = F.cross_entropy(run(x), y, label_smoothing=SMOOTHING, reduction="sum")
            loss.backward()
            muon.param_groups[0]["lr"] = FILTER_RATE * (1 - update / total)
            for i, group in enumerate(rest.param_groups):
                group["lr"] = group["first"] * max(0.0, 1 - update / (whitening_ends if i == 0 else total))
            rest.step()
            muon.step()
            network.zero_grad(set_to_none=True)
            losses.append(loss.item() / BATCH)
            update += 1
            if update == args.updates:
                break
        trained = time.perf_counter()
        if update == args.updates:
            epochs.append({"training_seconds": trained - start, "evaluation_seconds": 0.0, "accuracy": None})
            break
        found = accuracy(network, test_images, test_labels, plain)
        ended = time.perf_counter()
        epochs.append({"training_seconds": trained - start, "evaluation_seconds": ended - trained, "accuracy": found})
        text = f"epoch {epoch + 1}: loss {losses[-1]:.4f}, test accuracy {found:.4f}"
        print(f"{text}, {trained - start:.1f} s training, {ended - trained:.1f} s evaluation", file=sys.stderr)
    start, final = time.perf_counter(), None
    if args.updates is None:
        final = accuracy(network, test_images, test_labels, views)
    report = {
        "updates": update, "losses": [round(loss, 5) for loss in losses[:10]], "last_loss": losses[-1], "epochs": epochs,
        "whiten_seconds": whiten_seconds, "prepare_seconds": prepare_seconds,
        "final_accuracy": final, "final_evaluation_seconds": time.perf_counter() - start,
        "training_seconds": whiten_seconds + prepare_seconds + sum(e["training_seconds"] for e in epochs),
        "examples_per_second": update * BATCH / sum(e["training_seconds"] for e in epochs),
        "threads": args.threads, "compiled": args.compile, "seed": args.seed,
        "torch": torch.__version__, "python": platform.python_version(),
    }
    if args.json:
        print(json.dumps(report))
    else:
        print(f"{update} updates in {report['training_seconds']:.1f} s, final accuracy {final}, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
