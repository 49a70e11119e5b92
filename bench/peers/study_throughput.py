"""Trials an hour of one study, by `sooner study run` and by Optuna with PyTorch.

usage: study_throughput.py SOONER --data DIR [--batch 32 256] [--updates 200] [--trials 8] [--rounds 3] [--skip ROUTE ...]
       study_throughput.py SOONER --data DIR --to-target SECONDS

The study: the simple convolutional network on MNIST (55,000 examples), plain SGD, learning rates drawn at random between
0.001 and 0.05, every trial the same number of updates and one evaluation of 5,000 held-out examples. Both sides run two
workers of one thread each and keep trials in SQLite. Routes: sooner; eager and compiled, which are PyTorch under Optuna,
each worker a process. Sooner's time is that of the whole command, starting and loading included; PyTorch's begins when both
workers have imported, loaded, compiled and made a first update. Routes take turns; a figure is the median of the rounds.

With --to-target: a study of batch sizes 8 to 256, SGD and Nesterov, trained to val.error<0.02, runs for so many seconds;
trials an hour are those that ended, reached or not, over the time until the last one did.

One JSON line for each batch and route: trials_per_hour of each round and their median, and the ratio of sooner to the better
PyTorch route. PyTorch and Optuna come from pip; not run in CI.
"""
import argparse, gzip, json, os, statistics, struct, subprocess, sys, tempfile, time

STUDY = """
name = "throughput"
workload = "mnist-cnn"
target = "val.error<=0"
trials = {trials}
sequence = "random"
seed = {seed}
[axes]
batch = [{batch}]
[set]
optimizer.kind = "sgd"
optimizer.momentum = 0.0
schedule.kind = "constant"
schedule.learning_rate = 0.01
run.evaluate.updates = {updates}
[budget]
updates = {updates}
[[tune]]
name = "learning_rate"
range = {{ kind = "real", min = 0.001, max = 0.05, scale = "log" }}
"""

TO_TARGET = """
name = "to-target"
workload = "mnist-cnn"
target = "val.error<0.02"
trials = 1000
beyond_best = 2.0
[axes]
optimizer = ["sgd", "nesterov"]
batch = [8, 32, 128, 256]
[set]
run.evaluate = { growing = { by = 1.1, from = 0.1 } }
schedule.kind = "constant"
schedule.learning_rate = 0.02
[budget]
updates = 9000
examples = 110000
[[tune]]
name = "learning_rate"
range = { kind = "real", min = 0.003, max = 0.1, scale = "log" }
[[tune]]
name = "momentum"
range = { kind = "real", min = 0.5, max = 0.99, scale = "one-minus-log" }
floor = 0.0
[[at]]
axes = { optimizer = "sgd" }
without = ["momentum"]
"""


def sooner(args, batch, round_):
    with tempfile.TemporaryDirectory() as folder:
        file, study = os.path.join(folder, "study.toml"), os.path.join(folder, "study")
        with open(file, "w") as out:
            out.write(STUDY.format(trials=args.trials, batch=batch, updates=args.updates, seed=round_ + 1))
        subprocess.run([args.sooner, "study", "new", file, "--out", study], check=True, stdout=subprocess.DEVNULL)
        command = [args.sooner, "study", "run", study, "--workers", "2", "--data", args.data, "--json"]
        start = time.perf_counter()
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        status = json.loads(ran.stdout.splitlines()[-1])
        export = subprocess.run([args.sooner, "study", "export", study], check=True, capture_output=True, text=True)
    trials = [json.loads(line) for line in export.stdout.splitlines()]
    trials = [t for t in (t.get("trial", t) for t in trials) if "evaluations" in t]
    made = [t["evaluations"][-1]["updates"] for t in trials]
    if not status["finished"] or made != [args.updates] * args.trials:
        raise SystemExit(f"not the study that was asked for: {status}, updates {made}")
    return 3600 * args.trials / seconds


def to_target(args):
    with tempfile.TemporaryDirectory() as folder:
        file, study = os.path.join(folder, "study.toml"), os.path.join(folder, "study")
        with open(file, "w") as out:
            out.write(TO_TARGET)
        subprocess.run([args.sooner, "study", "new", file, "--out", study], check=True, stdout=subprocess.DEVNULL)
        command = [args.sooner, "study", "run", study, "--workers", "2", "--data", args.data]
        command += ["--seconds", str(args.to_target)]
        start, last, ended, reached = time.perf_counter(), 0.0, 0, 0
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if ": trial " in line and " after " in line:
                last, ended = time.perf_counter() - start, ended + 1
                reached += " complete after " in line
        process.wait()
    rate = 3600 * ended / last if ended else 0.0
    print(json.dumps({"to_target": "val.error<0.02", "batches": [8, 32, 128, 256], "trials": ended, "reached": reached,
                      "seconds": round(last, 1), "trials_per_hour": round(rate, 1)}), flush=True)


def read(folder, name):
    for path in (os.path.join(folder, f"{name}.gz"), os.path.join(folder, name)):
        if os.path.exists(path):
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
                data = file.read()
            head = 4 + 4 * data[3]
            return data[head:], struct.unpack(f">{data[3]}I", data[4:head])
    raise SystemExit(f"no {name} in {folder}")


def worker(args):
    """One process of the Optuna route; says `ready`, waits for a line, then takes trials until there are enough."""
    import optuna, torch
    from torch import nn

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    folder = next(f for f in (os.path.join(args.data, "mnist"), args.data) if os.path.isdir(f))
    pixels, shape = read(folder, "train-images-idx3-ubyte")
    labels, _ = read(folder, "train-labels-idx1-ubyte")
    x = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).reshape(shape[0], 1, 28, 28).float()
    x, y = (x / 255 - 0.1307) / 0.3081, torch.frombuffer(bytearray(labels), dtype=torch.uint8).long()
    train_x, train_y, val_x, val_y = x[:55000], y[:55000], x[55000:], y[55000:]
    net = nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 10),
    )
    loss_of = nn.CrossEntropyLoss()
    forward = torch.compile(net) if args.worker == "compiled" else net

    def fit(rate, updates):
        for layer in net:
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
        rule = torch.optim.SGD(net.parameters(), lr=rate)
        order, at = torch.randperm(55000), 0
        for _ in range(updates):
            if at + args.batch[0] > 55000:
                order, at = torch.randperm(55000), 0
            rows = order[at : at + args.batch[0]]
            at += args.batch[0]
            rule.zero_grad(set_to_none=True)
            loss_of(forward(train_x[rows]), train_y[rows]).backward()
            rule.step()

    def error():
        with torch.no_grad():
            wrong = sum((net(val_x[i : i + 500]).argmax(1) != val_y[i : i + 500]).sum().item() for i in range(0, 5000, 500))
        return wrong / 5000

    fit(0.01, 3)
    error()
    storage = optuna.storages.RDBStorage(f"sqlite:///{args.storage}", engine_kwargs={"connect_args": {"timeout": 60}})
    study = optuna.load_study(study_name="s", storage=storage, sampler=optuna.samplers.RandomSampler(seed=os.getpid()))

    def objective(trial):
        fit(trial.suggest_float("learning_rate", 0.001, 0.05, log=True), args.updates)
        return error()

    enough = optuna.study.MaxTrialsCallback(args.trials, states=(optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.RUNNING))
    print("ready", flush=True)
    sys.stdin.readline()
    study.optimize(objective, n_trials=args.trials // 2, callbacks=[enough])
    print("done", flush=True)


def pytorch(args, route, batch):
    import optuna

    with tempfile.TemporaryDirectory() as folder:
        storage = os.path.join(folder, "study.db")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        optuna.create_study(study_name="s", storage=f"sqlite:///{storage}")
        command = [sys.executable, __file__, args.sooner, "--data", args.data, "--worker", route, "--storage", storage]
        command += ["--batch", str(batch), "--updates", str(args.updates), "--trials", str(args.trials)]
        workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        if [w.stdout.readline() for w in workers] != ["ready\n"] * 2:
            raise SystemExit("a worker did not start")
        start = time.perf_counter()
        for w in workers:
            w.stdin.write("go\n")
            w.stdin.flush()
        if [w.stdout.readline() for w in workers] != ["done\n"] * 2:
            raise SystemExit("a worker failed")
        seconds = time.perf_counter() - start
        for w in workers:
            w.wait()
        done = len(optuna.load_study(study_name="s", storage=f"sqlite:///{storage}").get_trials(states=(optuna.trial.TrialState.COMPLETE,)))
    if done != args.trials:
        raise SystemExit(f"{done} of {args.trials} trials")
    return 3600 * done / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sooner")
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 256])
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--trials", type=int, default=8, help="an even number")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip", nargs="*", default=[], choices=["eager", "compiled"])
    parser.add_argument("--to-target", type=float)
    parser.add_argument("--worker", choices=["eager", "compiled"], help=argparse.SUPPRESS)
    parser.add_argument("--storage", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args)
    if args.to_target:
        return to_target(args)
    if args.trials % 2:
        parser.error("--trials is shared by two workers: give an even number")
    routes = ["sooner"] + [r for r in ("eager", "compiled") if r not in args.skip]
    for batch in args.batch:
        rates = {route: [] for route in routes}
        for round_ in range(args.rounds):
            for route in routes:
                rate = sooner(args, batch, round_) if route == "sooner" else pytorch(args, route, batch)
                rates[route].append(round(rate, 1))
        medians = {route: statistics.median(of) for route, of in rates.items()}
        peers = [m for route, m in medians.items() if route != "sooner"]
        row = {"batch": batch, "updates": args.updates, "trials": args.trials, "trials_per_hour": rates, "medians": medians}
        if peers:
            row["ratio"] = round(medians["sooner"] / max(peers), 2)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
