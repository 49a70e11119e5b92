"""`sooner`'s updates beside PyTorch's, of the same networks: ten losses from the same weights, and times in turn.

usage: compare.py SOONER [--losses] [--timing] [--rows NAME ...] [--data FOLDER] [--threads 2] [--rounds 5] [--seconds 2]
                  [--no-compile] [--prefix "chrt -r 10"] [--out FILE.json]

Both parts if neither is named. Progress is on stderr; tables are Markdown, on stdout; --out has every number as JSON.

Losses: `sooner` writes a workload's initial weights, and makes ten updates from that file on the first examples of the
training files (FOLDER holds mnist/ and cifar-10-batches-bin/; SOONER_DATA if not said), in order, normalised, without
augmentation, with the plan's optimiser at a constant rate. PyTorch reads the same files and does the same, eagerly and
compiled. Ends with exit code 1 where a loss differs by 1e-3 (absolute) or more.

Times: for each row a process of eager PyTorch in channels-last and one of compiled PyTorch (the loss included) wait while
others work; a round is `sooner bench`, then each of them, for so many seconds and at least one update. Inputs are noise,
rates are zero, f32, the fused optimiser. A route's figure is the median of the rounds' medians; the faster PyTorch counts.
Memory is the largest resident set of the process, of `sooner` and of the PyTorch that counts.

Needs PyTorch, NumPy and a C++ compiler. Not run in CI, since PyTorch's download is 5 GB.
"""
import argparse, json, os, pathlib, platform, re, shlex, statistics, subprocess, sys, tempfile, time, tomllib

# Row: workload, batch, constant rate of the losses, aims of docs/engine.md.
ROWS = {
    "resnet9-128": ("cifar10-resnet9", 128, 0.05, "2.2, 2.6"),
    "resnet9-512": ("cifar10-resnet9", 512, 0.1, "2.5, 3"),
    "airbench94-1024": ("cifar10-airbench94", 1024, 0.3, "2.2"),
    "airbench94-2000": ("cifar10-airbench94", 2000, 0.6, "2.2"),
    "resnet8-32": ("cifar10-resnet8", 32, 0.05, "2.0"),
    "resnet8-128": ("cifar10-resnet8", 128, 0.05, "2.0"),
    "resnet8-1024": ("cifar10-resnet8", 1024, 0.1, "2.0"),
    "mnist-cnn-1": ("mnist-cnn", 1, 0.002, "5"),
    "mnist-cnn-32": ("mnist-cnn", 32, 0.02, "4"),
    "mnist-cnn-256": ("mnist-cnn", 256, 0.02, "2"),
    "mnist-fc-1": ("mnist-fc-1024", 1, 0.01, "3"),
    "mnist-fc-64": ("mnist-fc-1024", 64, 0.1, "2.5"),
    "mnist-fc-4096": ("mnist-fc-1024", 4096, 0.1, "1.1"),
}
# Plain Nesterov in units of one update, on both sides and in both parts; decay as the plan's units come to.
CHANGES = {"cifar10-airbench94": {"units": "update", "weight_decay": 0.00133, "average": None}}
UPDATES, BOUND = 10, 1e-3
FOLDERS = {"mnist": ("mnist", 60000), "cifar10": ("cifar-10-batches-bin", 50000)}
HELD_OUT = 1000


def torch_worker(workload, batch, threads, how, plan):
    """Answers commands, a line each, in a process of its own: losses of ten updates; rates of updates for some seconds."""
    import resource

    import torch
    from networks import NETWORKS, load, optimizer, read_first

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    network, shape, _ = NETWORKS[workload]
    model = network().to(memory_format=torch.channels_last)
    smoothing = plan.get("label_smoothing", 0.0)

    def loss(x, y):
        return torch.nn.functional.cross_entropy(model(x), y, label_smoothing=smoothing)

    step = torch.compile(loss) if how == "compiled" else loss

    def update(rule, x, y):
        rule.zero_grad(set_to_none=True)
        found = step(x, y)
        found.backward()
        rule.step()
        return found

    timed = None
    for line in sys.stdin:
        command = json.loads(line)
        start = time.perf_counter()
        if command["do"] == "losses":
            load(workload, model, command["weights"])
            rule = optimizer(model, plan, command["rate"])
            images, classes = read_first(workload, command["data"], UPDATES * batch)
            images = images.contiguous(memory_format=torch.channels_last)
            pairs = zip(images.split(batch), classes.split(batch))
            answer = {"losses": [update(rule, x, y).item() for x, y in pairs]}
        else:
            if timed is None:
                x = torch.randn(batch, *shape).contiguous(memory_format=torch.channels_last)
                timed = optimizer(model, plan, 0.0), x, torch.randint(0, 10, (batch,))
                update(*timed)
            seconds = []
            began = time.perf_counter()
            while not seconds or time.perf_counter() - began < command["seconds"]:
                before = time.perf_counter()
                update(*timed)
                seconds.append(time.perf_counter() - before)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            answer = {"rate": batch / statistics.median(seconds), "updates": len(seconds), "memory": peak}
        answer |= {"took": time.perf_counter() - start, "torch": torch.__version__, "python": platform.python_version()}
        print(json.dumps(answer), flush=True)


class Worker:
    """A PyTorch process that waits for commands."""

    def __init__(self, args, workload, batch, how, plan):
        words = [sys.executable, __file__, "--threads", str(args.threads), "--worker", workload, str(batch), how, json.dumps(plan)]
        self.process = subprocess.Popen(args.prefix + words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a PyTorch process ended: exit code {self.process.wait()}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def sooner(args, *words):
    """The JSON object that a command ends with, and the largest resident set of its process in MiB."""
    command = args.prefix + [args.sooner, *map(str, words), "--threads", str(args.threads), "--json"]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        text = out.read()
        if process.returncode:
            raise SystemExit(f"{shlex.join(command)}: exit code {process.returncode}\n{text[-2000:]}{err.read()[-2000:]}")
    return json.loads(text.strip().splitlines()[-1]), usage.ru_maxrss / 1024


def plan_of(args, workload):
    """The plan's TOML, read, with this script's changes."""
    shown = subprocess.run([args.sooner, "workloads", workload], capture_output=True, text=True, check=True)
    plan = tomllib.loads(shown.stdout)
    for key, value in CHANGES.get(workload, {}).items():
        plan["optimizer"].pop(key, None)
        if value is not None:
            plan["optimizer"][key] = value
    return plan


def changes(workload):
    words = []
    for key, value in CHANGES.get(workload, {}).items():
        words += ["--set", f"optimizer.{key}={'none' if value is None else value}"]
    return words


def train(args, row, plan, points, updates, out, more=()):
    """So many updates from the beginning of the training files; the folder of the record."""
    workload, batch, _, _ = ROWS[row]
    folder, whole = FOLDERS[plan["data"]["kind"]]
    (normalize,) = (stage["normalize"] for stage in plan["pipeline"]["stages"] if "normalize" in stage)
    values = ", ".join(f"{key} = {value}" for key, value in normalize.items())
    settings = [
        f"data.validation={HELD_OUT}",
        f"pipeline.stages=[{{ normalize = {{ {values} }} }}, {{ batch = {batch} }}]",
        f"schedule={{ kind = 'piecewise', points = {points} }}",
        f"run.epochs={updates * batch / (whole - HELD_OUT)!r}",
        "run.target=none", "run.evaluate=epoch",
    ]
    words = ["train", workload, "--data", args.data / folder, "--out", out, *changes(workload), *more]
    summary, _ = sooner(args, *words, *(word for s in settings for word in ("--set", s)))
    if summary["position"]["updates"] != updates:
        raise SystemExit(f"{out}: {summary['position']['updates']} updates")
    return out


def measure_losses(args, row, work, workers, plan):
    workload, batch, rate, _ = ROWS[row]
    say(f"{row}: ten updates at a rate of {rate}")
    # The first update of a rate that rises from zero changes nothing: what it leaves are the initial weights.
    start = train(args, row, plan, [[0.0, 0.0], [1.0, rate]], 1, work / f"{row}-initial")
    weights = start / "weights.safetensors"
    record = train(args, row, plan, [[0.0, rate], [1.0, rate]], UPDATES, work / row, ["--init", weights])
    lines = [json.loads(line) for line in (record / "run.jsonl").read_text().splitlines()]
    told = [line for line in lines if line["line"] == "progress"][:UPDATES]
    if [line["updates"] for line in told] != list(range(1, UPDATES + 1)):
        raise SystemExit(f"{record}/run.jsonl: the first updates have no line each")
    losses, versions = {"sooner": [line["loss"] for line in told]}, {"kernels": lines[0]["kernels"]}
    data = str(args.data / FOLDERS[plan["data"]["kind"]][0])
    for how, worker in workers.items():
        answer = worker.ask(do="losses", weights=str(weights), rate=rate, data=data)
        losses[how] = answer["losses"]
        versions |= {key: answer[key] for key in ("torch", "python")}
        say(f"  {how}: {answer['took']:.1f} s")
    apart = {how: max(abs(a - b) for a, b in zip(losses["sooner"], losses[how])) for how in workers}
    agree = all(d < BOUND for d in apart.values())
    return {"rate": rate, "losses": losses, "largest_difference": apart, "agree": agree, "versions": versions}


def measure_times(args, row, workers):
    workload, batch, _, _ = ROWS[row]
    rounds = {route: [] for route in ("sooner", *workers)}
    for k in range(args.rounds):
        bench, peak = sooner(args, "bench", workload, "--batch", batch, "--seconds", args.seconds, *changes(workload))
        about = {key: bench[key] for key in ("updates", "kernels", "peak_gflops", "resident_bytes", "share")}
        rounds["sooner"].append({"rate": bench["examples_per_second"], "memory": peak, **about})
        for how, worker in workers.items():
            rounds[how].append(worker.ask(do="times", seconds=args.seconds))
        rates = ", ".join(f"{route} {found[-1]['rate']:.1f}" for route, found in rounds.items())
        say(f"{row}: round {k + 1}: {rates} examples/s")
    rate = {route: statistics.median(r["rate"] for r in found) for route, found in rounds.items()}
    memory = {route: max(r["memory"] for r in found) for route, found in rounds.items()}
    best = max(workers, key=lambda how: rate[how])
    ratio = {"speed": rate["sooner"] / rate[best], "memory": memory["sooner"] / memory[best]}
    return {"examples_per_second": rate, "memory_mib": memory, "best": best, "ratio": ratio, "rounds": rounds}


def losses_table(rows):
    for row, found in rows.items():
        names = list(found["losses"])
        print(f"\n{row}, rate {found['rate']}\n\n| update | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
        for k, values in enumerate(zip(*found["losses"].values())):
            print(f"| {k + 1} | {' | '.join(f'{value:.6f}' for value in values)} |")
    print(f"\n| network, batch | rate | first loss, last | largest difference | equal to {BOUND} |\n|{'---|' * 5}")
    for row, found in rows.items():
        apart = ", ".join(f"{d:.1e} {how}" for how, d in found["largest_difference"].items())
        first, last = found["losses"]["sooner"][0], found["losses"]["sooner"][-1]
        print(f"| {row} | {found['rate']} | {first:.4f}, {last:.4f} | {apart} | {'yes' if found['agree'] else 'NO'} |")


def times_table(rows, hows):
    heads = ["network, batch", "sooner, examples/s", *hows, "ratio", "aim", "memory, MiB", "of PyTorch's", "n"]
    print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row, found in rows.items():
        rates, memory = found["examples_per_second"], found["memory_mib"]
        shown = [f"{rates[route]:.{1 if rates[route] < 1000 else 0}f}" for route in ("sooner", *hows)]
        both = f"{memory['sooner']:.0f} / {memory[found['best']]:.0f}"
        cells = [row, *shown, f"{found['ratio']['speed']:.2f}", ROWS[row][3], both, f"{found['ratio']['memory']:.2f}"]
        print(f"| {' | '.join(cells)} | {len(found['rounds']['sooner'])} |")


BEGAN = time.monotonic()


def say(text):
    print(f"{time.monotonic() - BEGAN:6.0f} s  {text}", file=sys.stderr, flush=True)


def machine(args):
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    version = subprocess.run([args.sooner, "--version"], capture_output=True, text=True, check=True).stdout
    version = version.splitlines()[0].removeprefix("sooner ")
    return {"cpu": cpu and cpu[1], "cores": os.cpu_count(), "threads": args.threads, "sooner": version}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sooner", nargs="?")
    parser.add_argument("--losses", action="store_true")
    parser.add_argument("--timing", action="store_true")
    parser.add_argument("--rows", nargs="+", choices=ROWS, metavar="NAME", default=list(ROWS), help=", ".join(ROWS))
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("SOONER_DATA"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--prefix", type=shlex.split, default=[], help="what every measured process is started with")
    parser.add_argument("--out", type=pathlib.Path, help="a JSON file of everything")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        workload, batch, how, plan = args.worker
        return torch_worker(workload, int(batch), args.threads, how, json.loads(plan))
    if not args.sooner:
        parser.error("which sooner?")
    both = not args.losses and not args.timing
    if (args.losses or both) and args.data is None:
        parser.error("losses need --data, or SOONER_DATA")
    args.sooner = str(pathlib.Path(args.sooner).resolve())
    hows = ["eager"] + ([] if args.no_compile else ["compiled"])
    about, losses, times = machine(args), {}, {}
    with tempfile.TemporaryDirectory() as work:
        for row in args.rows:
            workload, batch, _, _ = ROWS[row]
            plan = plan_of(args, workload)
            workers = {how: Worker(args, workload, batch, how, plan["optimizer"]) for how in hows}
            if args.losses or both:
                losses[row] = measure_losses(args, row, pathlib.Path(work), workers, plan)
                about |= losses[row]["versions"]
            if args.timing or both:
                warm = {how: worker.ask(do="times", seconds=0.0) for how, worker in workers.items()}
                say(f"{row}: ready, " + ", ".join(f"{how} after {answer['took']:.1f} s" for how, answer in warm.items()))
                about |= {key: warm["eager"][key] for key in ("torch", "python")}
                times[row] = measure_times(args, row, workers)
                about |= {key: times[row]["rounds"]["sooner"][0][key] for key in ("kernels", "peak_gflops")}
            for worker in workers.values():
                worker.end()
            if args.out:
                args.out.write_text(json.dumps({"machine": about, "losses": losses, "times": times}, indent=1))
    print(", ".join(f"{key} {value:.0f}" if isinstance(value, float) else f"{key} {value}" for key, value in about.items()))
    if losses:
        losses_table(losses)
    if times:
        times_table(times, hows)
    return int(not all(found["agree"] for found in losses.values()))


if __name__ == "__main__":
    sys.exit(main())
