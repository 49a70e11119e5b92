"""Updates of the same networks by `sooner bench` and by PyTorch, in turn, for the table in docs/engine.md.

usage: compare.py SOONER [--rows NAME ...] [--rounds 5] [--threads 2]

Every round runs each route once in a process of its own; a route's figure is the median of the rounds' medians. PyTorch
runs eagerly in channels-last and compiled, f32, with the fused Nesterov optimiser; the better of the two counts. Inputs
are noise and the learning rate is zero in both. One JSON line a row: name, batch, threads, examples_per_second of each
route, ratio of sooner to the better PyTorch, memory in MiB (peak resident set of the process), rounds, versions.
Install PyTorch with pip; not run in CI, since its download is 5 GB.
"""
import argparse, json, resource, statistics, subprocess, sys, time

# name: (workload, settings, network, batch)
ROWS = {
    "resnet9-128": ("cifar10-resnet9", [], "resnet9", 128),
    "resnet9-512": ("cifar10-resnet9", [], "resnet9", 512),
    "resnet8-32": ("cifar10-resnet8", [], "resnet8", 32),
    "resnet8-128": ("cifar10-resnet8", [], "resnet8", 128),
    "resnet8-1024": ("cifar10-resnet8", [], "resnet8", 1024),
    "airbench94-1024": ("cifar10-airbench94", [], "airbench94", 1024),
    "airbench94-2000": ("cifar10-airbench94", [], "airbench94", 2000),
    "mnist-cnn-1": ("mnist-cnn", [], "cnn", 1),
    "mnist-cnn-32": ("mnist-cnn", [], "cnn", 32),
    "mnist-cnn-256": ("mnist-cnn", [], "cnn", 256),
    "mnist-fc-1": ("mnist-fc-1024", [], "fc", 1),
    "mnist-fc-64": ("mnist-fc-1024", [], "fc", 64),
    "mnist-fc-4096": ("mnist-fc-1024", [], "fc", 4096),
}
SECONDS, LEAST = 2.0, 5


def network(name):
    from torch import nn

    def normed(inputs, outputs):
        conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))

    class Residual(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = nn.Sequential(normed(width, width), normed(width, width))

        def forward(self, x):
            return x + self.body(x)

    class Plain(nn.Module):
        """A pre-activation block without normalisation; the shortcut takes every second pixel and pads channels."""

        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.stride, self.more = stride, outputs - inputs
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1)

        def forward(self, x):
            h = self.second(self.first(x.relu()).relu())
            short = x[:, :, :: self.stride, :: self.stride]
            return h + nn.functional.pad(short, (0, 0, 0, 0, 0, self.more))

    class Scaled(nn.Module):
        def forward(self, x):
            return x / 9

    def group(inputs, outputs):
        """Two convolutions, the first pooled, with normalisation whose gain is fixed."""
        layers = []
        for width, pool in ((inputs, [nn.MaxPool2d(2)]), (outputs, [])):
            norm = nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4)
            norm.weight.requires_grad = False
            layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False), *pool, norm, nn.GELU()]
        return layers

    if name == "airbench94":
        whiten = nn.Conv2d(3, 24, 2)
        whiten.weight.requires_grad = False
        return (3, 32, 32), nn.Sequential(
            whiten, nn.GELU(), *group(24, 64), *group(64, 256), *group(256, 256),
            nn.MaxPool2d(3), nn.Flatten(), nn.Linear(256, 10, bias=False), Scaled(),
        )
    if name == "resnet9":
        return (3, 32, 32), nn.Sequential(
            normed(3, 64),
            normed(64, 128), nn.MaxPool2d(2), Residual(128),
            normed(128, 256), nn.MaxPool2d(2),
            normed(256, 512), nn.MaxPool2d(2), Residual(512),
            nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10, bias=False),
        )
    if name == "resnet8":
        return (3, 32, 32), nn.Sequential(
            nn.Conv2d(3, 16, 3, 1, 1), Plain(16, 16, 1), Plain(16, 32, 2), Plain(32, 64, 2),
            nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
        )
    if name == "cnn":
        return (1, 28, 28), nn.Sequential(
            nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 10),
        )
    if name == "fc":
        return (1, 28, 28), nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 10))
    raise SystemExit(f"no network {name}")


def torch_route(name, batch, threads, compiled):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    shape, model = network(name)
    model = model.to(memory_format=torch.channels_last)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.0, momentum=0.9, weight_decay=5e-4, nesterov=True, fused=True)
    forward = torch.compile(model) if compiled else model
    x = torch.randn(batch, *shape).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (batch,))

    def update():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(forward(x), y).backward()
        optimizer.step()

    for _ in range(3):
        update()
    seconds, start = [], time.perf_counter()
    while len(seconds) < LEAST or time.perf_counter() - start < SECONDS:
        before = time.perf_counter()
        update()
        seconds.append(time.perf_counter() - before)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rate": batch / statistics.median(seconds), "memory": memory, "version": torch.__version__}))


def last_line(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def sooner_route(sooner, workload, settings, batch, threads):
    command = [sooner, "bench", workload, "--batch", str(batch), "--threads", str(threads), "--json"]
    found = last_line(command + [word for s in settings for word in ("--set", s)])
    return {"rate": found["examples_per_second"], "memory": found["resident_bytes"] / 2**20, "share": found["share"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sooner", nargs="?")
    parser.add_argument("--rows", nargs="*", default=list(ROWS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--torch", nargs=3, help="NETWORK BATCH eager|compiled: one PyTorch route, in this process")
    args = parser.parse_args()
    if args.torch:
        name, batch, how = args.torch
        return torch_route(name, int(batch), args.threads, how == "compiled")
    for row in args.rows:
        workload, settings, name, batch = ROWS[row]
        routes = ["sooner", "eager"] + ([] if args.no_compile else ["compiled"])
        found = {route: [] for route in routes}
        for _ in range(args.rounds):
            for route in routes:
                if route == "sooner":
                    result = sooner_route(args.sooner, workload, settings, batch, args.threads)
                else:
                    script = [sys.executable, __file__, "--threads", str(args.threads), "--torch", name, str(batch), route]
                    result = last_line(script)
                found[route].append(result)
        rates = {route: statistics.median(r["rate"] for r in results) for route, results in found.items()}
        memory = {route: round(statistics.median(r["memory"] for r in results)) for route, results in found.items()}
        best = max(rate for route, rate in rates.items() if route != "sooner")
        print(json.dumps({
            "row": row, "batch": batch, "threads": args.threads,
            "examples_per_second": {route: round(rate, 1) for route, rate in rates.items()},
            "ratio": round(rates["sooner"] / best, 2), "memory_mib": memory, "rounds": args.rounds,
            "torch": found["eager"][0]["version"],
        }), flush=True)


if __name__ == "__main__":
    main()
