"""The network of examples/own_model.rs in PyTorch, on its own weights: the same logits.

usage: own_model_logits.py FOLDER

FOLDER is what `cargo run --release --example own_model -- FOLDER` wrote to. Reads weights.safetensors and
held_out.safetensors (examples and the logits of the run), computes the logits in f32 and f64, and prints one JSON line:
the largest absolute differences, the largest logit, how many examples get the same class, version. Exits with 1 if a
logit differs by more than 1e-4 of the largest. Install PyTorch and NumPy with pip; not run in CI, since PyTorch's download is 5 GB.
"""
import json, pathlib, struct, sys

import numpy as np
import torch
from torch import nn


def read(path):
    """A safetensors file of F32 tensors: the length of a JSON header, the header, the values."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    array = lambda t: np.frombuffer(body[slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
    return {name: torch.from_numpy(array(t).copy()) for name, t in header.items()}


def logits(weights, x):
    """x: [N, H, W, C]. PyTorch wants channels before positions, in images and in convolution weights."""
    h = nn.functional.conv2d(x.permute(0, 3, 1, 2), weights["conv.weight"].permute(3, 2, 0, 1), padding=1)
    mean, variance = weights["norm.running"]
    h = nn.functional.batch_norm(h, mean, variance, weights["norm.gain"], weights["norm.bias"], eps=1e-5)
    h = nn.functional.max_pool2d(nn.functional.gelu(h), 2)
    # Back to channels last, which is the order in which the linear layer sees them.
    return h.permute(0, 2, 3, 1).flatten(1) @ weights["head.weight"] + weights["head.bias"]


def main():
    folder = pathlib.Path(sys.argv[1])
    weights, seen = read(folder / "weights.safetensors"), read(folder / "held_out.safetensors")
    single = logits(weights, seen["examples"])
    double = logits({k: v.double() for k, v in weights.items()}, seen["examples"].double())
    largest = seen["logits"].abs().max().item()
    result = {
        "examples": len(single),
        "largest_logit": largest,
        "largest_difference_f32": (single - seen["logits"]).abs().max().item(),
        "largest_difference_f64": (double - seen["logits"]).abs().max().item(),
        "same_class": (single.argmax(1) == seen["logits"].argmax(1)).sum().item(),
        "torch": torch.__version__,
    }
    print(json.dumps(result))
    return int(result["largest_difference_f64"] > 1e-4 * largest)


if __name__ == "__main__":
    sys.exit(main())
