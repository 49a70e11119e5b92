"""One ResNet-9 update in PyTorch, to compare with `sooner bench cifar10-resnet9`.

usage: resnet9_update.py [--batch 128] [--threads 2] [--updates 5] [--compile]

Page's network in f32 and channels-last, Nesterov with weight decay through the fused optimiser, cross entropy; random
inputs. Prints one JSON line: batch, threads, examples_per_second (by the median update), gflops (2.2755 GFLOP an
example and update), version. Install PyTorch with pip; not run in CI, since its download is 5 GB.
"""
import argparse, json, statistics, time

import torch
from torch import nn

GFLOP_PER_EXAMPLE = 2.2755


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(block(width, width), block(width, width))

    def forward(self, x):
        return x + self.body(x)


class Resnet9(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            block(3, 64),
            block(64, 128), nn.MaxPool2d(2), Residual(128),
            block(128, 256), nn.MaxPool2d(2),
            block(256, 512), nn.MaxPool2d(2), Residual(512),
            nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10, bias=False),
        )

    def forward(self, x):
        return self.body(x) * 0.125


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = Resnet9().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.0, momentum=0.9, weight_decay=5e-4, nesterov=True, fused=True
    )
    step = torch.compile(model) if args.compile else model
    x = torch.randn(args.batch, 3, 32, 32).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (args.batch,))

    def update():
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(step(x), y).backward()
        optimizer.step()

    update()
    update()
    seconds = []
    for _ in range(args.updates):
        start = time.perf_counter()
        update()
        seconds.append(time.perf_counter() - start)
    rate = args.batch / statistics.median(seconds)
    result = {"batch": args.batch, "threads": args.threads, "compiled": args.compile, "examples_per_second": rate,
              "gflops": rate * GFLOP_PER_EXAMPLE, "updates": args.updates, "torch": torch.__version__}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
