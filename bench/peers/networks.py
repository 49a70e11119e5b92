"""The networks of docs/engine.md's comparison in PyTorch, from weights that `sooner` wrote, on batches that it read.

Modules and parameters are called as in `sooner`'s weight files, so that names say what belongs to what. Used by
compare.py; needs PyTorch and NumPy.
"""
import pathlib

import torch
from airbench_muon import read as read_cifar10
from own_model_logits import read as read_weights
from torch import nn
from torch.nn import functional as F

MNIST_MEAN, MNIST_STD = 0.1307, 0.3081


class Normed(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)), inplace=True)


class Stage(nn.Module):
    """A convolution that is pooled, then perhaps two more with a shortcut over them."""

    def __init__(self, inputs, outputs, residual):
        super().__init__()
        first = Normed(inputs, outputs)
        self.conv, self.norm = first.conv, first.norm
        self.residual1, self.residual2 = (Normed(outputs, outputs) if residual else None for _ in range(2))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x)), inplace=True), 2)
        return x if self.residual1 is None else x + self.residual2(self.residual1(x))


class Resnet9(nn.Module):
    def __init__(self):
        super().__init__()
        self.prep = Normed(3, 64)
        self.layer1, self.layer2, self.layer3 = Stage(64, 128, True), Stage(128, 256, False), Stage(256, 512, True)
        self.linear = nn.Linear(512, 10, bias=False)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.prep(x))))
        return self.linear(F.max_pool2d(x, 4).flatten(1)) * 0.125


class Block(nn.Module):
    """Pre-activation without normalisation; the shortcut takes every second pixel and pads channels."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.stride, self.more = stride, outputs - inputs
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1)

    def forward(self, x):
        h = self.conv2(F.relu(self.conv1(F.relu(x)), inplace=True))
        if self.more:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return h + x


class Resnet8(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, 1, 1)
        self.block1, self.block2, self.block3 = Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.conv(x))))
        return self.linear(F.adaptive_avg_pool2d(F.relu(x), 1).flatten(1))


class Group(nn.Module):
    """Two convolutions, the first pooled, with normalisation whose gain is fixed."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(c, outputs, 3, padding=1, bias=False) for c in (inputs, outputs))
        self.norm1, self.norm2 = (nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4) for _ in range(2))
        for norm in (self.norm1, self.norm2):
            norm.weight.requires_grad_(False)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Airbench94(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad_(False)
        self.group1, self.group2, self.group3 = Group(24, 64), Group(64, 256), Group(256, 256)
        self.linear = nn.Linear(256, 10, bias=False)

    def forward(self, x):
        x = self.group3(self.group2(self.group1(F.gelu(self.whiten(x)))))
        return self.linear(F.max_pool2d(x, 3).flatten(1)) / 9


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.linear = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 64, 5), nn.Linear(1024, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x), inplace=True), 2)
        x = F.max_pool2d(F.relu(self.conv2(x), inplace=True), 2)
        return self.linear(x.flatten(1))


class Connected(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(784, 1024), nn.Linear(1024, 10)

    def forward(self, x):
        return self.layer2(F.relu(self.layer1(x.flatten(1)), inplace=True))


# Workload of `sooner`: the network, its input, and positions behind which a linear layer's channels lie in PyTorch.
NETWORKS = {
    "cifar10-resnet9": (Resnet9, (3, 32, 32), {}),
    "cifar10-resnet8": (Resnet8, (3, 32, 32), {}),
    "cifar10-airbench94": (Airbench94, (3, 32, 32), {}),
    "mnist-cnn": (Cnn, (1, 28, 28), {"linear": (4, 4)}),
    "mnist-fc-1024": (Connected, (1, 28, 28), {}),
}


def is_gain(model, name):
    module, _, kind = name.rpartition(".")
    return kind == "weight" and isinstance(model.get_submodule(module), nn.BatchNorm2d)


@torch.no_grad()
def load(workload, model, path):
    """Gives every parameter its value from a weight file: convolutions lie as [KH, KW, C, K] there, linear weights as [I, O]."""
    tensors = read_weights(path)
    images = NETWORKS[workload][2]
    for name, parameter in model.named_parameters():
        module, _, kind = name.rpartition(".")
        if is_gain(model, name):
            # A gain that is fixed is no variable of ours.
            found = tensors.pop(f"{module}.gain") if parameter.requires_grad else torch.ones_like(parameter)
        else:
            found = tensors.pop(name)
        if found.dim() == 4:
            found = found.permute(3, 2, 0, 1)
        elif found.dim() == 2 and module in images:
            height, width = images[module]
            found = found.view(height, width, -1, found.shape[1]).permute(3, 2, 0, 1).flatten(1)
        elif found.dim() == 2:
            found = found.T
        if found.shape != parameter.shape:
            raise SystemExit(f"{name}: {tuple(found.shape)} in {path}, {tuple(parameter.shape)} here")
        parameter.copy_(found)
    if left := [name for name in tensors if not name.endswith(".running")]:
        raise SystemExit(f"{path}: nothing here is called {', '.join(left)}")


def optimizer(model, plan, rate):
    """The fused optimiser of a plan's optimizer section: SGD or Nesterov, groups of biases with rates of their own."""
    if plan["kind"] not in ("sgd", "nesterov"):
        raise SystemExit(f"optimizer.kind = {plan['kind']}")
    parameters = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        kind = "gains" if is_gain(model, name) else "biases" if name.endswith("bias") else "weights"
        matches = (g for g in plan.get("groups", []) if g["parameters"] == kind and name.startswith(g.get("prefix", "")))
        group = next(matches, {})
        decay = plan.get("weight_decay", 0.0) * group.get("decay_scale", 1.0)
        parameters.append({"params": [parameter], "lr": rate * group.get("rate_scale", 1.0), "weight_decay": decay})
    groups = {}
    for one in parameters:
        key = one["lr"], one["weight_decay"]
        groups.setdefault(key, {**one, "params": []})["params"] += one["params"]
    momentum = plan.get("momentum", 0.0)
    return torch.optim.SGD(list(groups.values()), lr=rate, momentum=momentum, nesterov=momentum > 0, fused=True)


def read_mnist(folder, count):
    """Normalised images [N, 1, 28, 28] and classes [N] of the authors' training files, from their beginning."""
    pixels, classes = (
        torch.frombuffer(bytearray((folder / f"train-{name}-ubyte").read_bytes()), dtype=torch.uint8, offset=offset)
        for name, offset in (("images-idx3", 16), ("labels-idx1", 8))
    )
    images = pixels[: count * 784].view(-1, 1, 28, 28).float() / 255
    return (images - MNIST_MEAN) / MNIST_STD, classes[:count].long()


def read_first(workload, folder, count):
    """The first examples of a workload's training files, normalised as its plan has it."""
    folder = pathlib.Path(folder)
    if workload.startswith("mnist"):
        images, classes = read_mnist(folder, count)
    else:
        images, classes = read_cifar10([folder / f"data_batch_{i + 1}.bin" for i in range(-(-count // 10000))])
    if len(images) < count:
        raise SystemExit(f"{folder}: {len(images)} examples, {count} wanted")
    return images[:count], classes[:count]
