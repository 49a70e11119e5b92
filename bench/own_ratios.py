"""Two ratios of `sooner` to itself that docs/engine.md promises, runs in turn; progress on stderr, JSON on stdout.

usage: own_ratios.py SOONER at-once [--workload mnist-cnn] [--cores 0 1] [--rounds 5] [--seconds 3]
       own_ratios.py SOONER train DATA [--workload cifar10-resnet8] [--threads 2] [--rounds 5] [--seconds 15]

at-once: updates of a program of one thread on each of two cores (taskset), examples/s of both together over that of one
alone, which runs on each core in turn.
train: examples/s of the training clock (waiting for data, updates and the log) of `sooner train` on real data, the files in
DATA, over those of `sooner bench` at the same batch and threads. Every other round begins with the other.
"""
import argparse, json, pathlib, statistics, subprocess, sys, tempfile, tomllib


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def at_once(args):
    def start(core):
        words = ["bench", args.workload, "--threads", "1", "--seconds", str(args.seconds), "--json"]
        return subprocess.Popen(["taskset", "-c", str(core), args.sooner, *words], stdout=subprocess.PIPE, text=True)

    def rates(cores):
        processes = [start(core) for core in cores]
        return [last_json(process.communicate()[0])["examples_per_second"] for process in processes]

    one, two = [], []
    for k in range(args.rounds):
        one += rates(args.cores[:1])
        two.append(sum(rates(args.cores)))
        one += rates(args.cores[1:])
        print(f"round {k + 1}: one {one[-2]:.0f} and {one[-1]:.0f}, two {two[-1]:.0f} examples/s", file=sys.stderr)
    ratio = statistics.median(two) / statistics.median(one)
    return {"one": one, "two": two, "ratio": ratio, "n": args.rounds}


def train(args):
    common = ["--threads", str(args.threads), "--json"]
    shown = subprocess.run([args.sooner, "workloads", args.workload], capture_output=True, text=True, check=True)
    data = tomllib.loads(shown.stdout)["data"]
    examples = {"mnist": 60000, "fashion-mnist": 60000, "cifar10": 50000}[data["kind"]] - data["validation"]

    def bench():
        words = [args.sooner, "bench", args.workload, "--seconds", str(args.seconds / 3), *common]
        return last_json(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)

    def run(epochs):
        with tempfile.TemporaryDirectory() as folder:
            words = ["train", args.workload, "--data", str(args.data), "--epochs", str(epochs), *common]
            words += ["--set", "run.target=none", "--set", "run.evaluate=epoch", "--out", f"{folder}/run"]
            done = subprocess.run([args.sooner, *words], stdout=subprocess.PIPE, text=True, check=True)
        return last_json(done.stdout)

    first = bench()["examples_per_second"]
    epochs = round(args.seconds * first / examples, 2)
    benched, trained, clocks = [], [], []
    for k in range(args.rounds):
        for route in (bench, run) if k % 2 == 0 else (run, bench):
            if route is bench:
                benched.append(bench()["examples_per_second"])
            else:
                found = run(epochs)
                trained.append(found["examples_per_second"])
                clocks.append({key: found["time"][key] for key in ("wait", "train", "log")})
        text = f"bench {benched[-1]:.0f}, train {trained[-1]:.0f} examples/s"
        print(f"round {k + 1}: {text}; {clocks[-1]}", file=sys.stderr)
    ratio = statistics.median(trained) / statistics.median(benched)
    rows = {"bench": benched, "train": trained, "training_clock": clocks, "epochs": epochs}
    return {"workload": args.workload, "threads": args.threads, **rows, "ratio": ratio, "n": args.rounds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sooner")
    parts = parser.add_subparsers(dest="part", required=True)
    once = parts.add_parser("at-once")
    once.add_argument("--workload", default="mnist-cnn")
    once.add_argument("--cores", type=int, nargs=2, default=[0, 1])
    once.add_argument("--seconds", type=float, default=3.0)
    beside = parts.add_parser("train")
    beside.add_argument("data", type=pathlib.Path)
    beside.add_argument("--workload", default="cifar10-resnet8")
    beside.add_argument("--threads", type=int, default=2)
    beside.add_argument("--seconds", type=float, default=15.0)
    for part in (once, beside):
        part.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(json.dumps(at_once(args) if args.part == "at-once" else train(args)))


if __name__ == "__main__":
    main()
