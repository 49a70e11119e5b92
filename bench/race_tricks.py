#!/usr/bin/env python3
"""What each trick of the race to 94 % brings, by paired runs on a cheaper proxy.

The proxy is `cifar10-94` with a narrow network (32, 64, 64 channels: a seventh of the FLOPs), CIFAR-10's first 5,000
training images, batch 250 and 5 epochs: 100 updates. Each condition takes one trick away from it or adds one, and runs with the same
seeds; what is told is the mean of the differences of each pair, with its 95 % interval (Student's t over seeds). Accuracy is
of the final weights on the 10,000 test images, by one view of each unless said otherwise. Time is CPU time of the whole
process, since runs take one thread and may share the machine; building programs and the final evaluation are in it.

    bench/race_tricks.py --sooner target/release/sooner --data DIR --out OUT [--seeds 5] [--only NAME,NAME]
                         [--prefix "taskset -c 0"] [--report FILE]

Runs that are finished are not run again, so that it can be stopped and started at will. One engine thread, so that two
halves of the seeds can run side by side. Python 3.9 and nothing else. Writes OUT/tricks.json and, with --report, a table in
Markdown.
"""

import argparse
import json
import math
import pathlib
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import time

EPOCHS = 5
RATE = 0.24
# Two-sided 95 % quantiles of Student's t by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}

STAGES = (
    '[{{ shuffle = "epoch" }}, {{ crop = {{ size = 32, pad = 2, padding = "{padding}" }} }}, {flip}{resize}'
    "{{ normalize = {{ mean = [0.4914, 0.4822, 0.4465], std = [0.2470, 0.2435, 0.2616] }} }}, {{ batch = 250 }}]"
)


def stages(padding="reflect", flip="alternate", side=None):
    flip = f'{{ flip = "{flip}" }}, ' if flip else ""
    return "pipeline.stages=" + STAGES.format(
        padding=padding, flip=flip, resize=f"{{ resize = {side} }}, " if side else ""
    )


def muon(smoothing=0.2, bias_until=3.0, bias_scale=55.208333333333336, average=""):
    """The plan's optimiser; rates and decay of biases and head are of the summed loss, so an eighth of those at batch 2,000."""
    nesterov = 'rule = "nesterov", momentum = 0.85'
    groups = ", ".join(
        [
            f'{{ parameters = "biases", prefix = "whiten", {nesterov}, rate_scale = {bias_scale}, until = {bias_until} }}',
            f'{{ parameters = "biases", {nesterov}, rate_scale = {bias_scale} }}',
            f'{{ parameters = "weights", prefix = "linear", {nesterov}, rate_scale = 697.9166666666666, decay_scale = 0.0791 }}',
            '{ parameters = "weights", decay_scale = 0.0 }',
        ]
    )
    return (
        'optimizer={ kind = "muon", momentum = 0.6, rounds = 3, norms = "kept", weight_decay = 3.77e-5, '
        f"label_smoothing = {smoothing}, {average}groups = [{groups}] }}"
    )


def linear(rate, end):
    return f'schedule={{ kind = "linear", learning_rate = {rate}, end_factor = {end} }}'


LOOKAHEAD = "average = { kind = \"lookahead\", decay = 0.95, every = 5, power = 3.0 }, "
HEAD = '{ parameters = "weights", prefix = "linear", kind = "orthogonal", gain = 16.0 }'
# airbench94's own optimiser, schedule, logit scale and head: batch 1,024 there, 250 here, and `decoupled-1024`
# takes rates as of the summed loss.
NESTEROV = [
    'optimizer={ kind = "nesterov", momentum = 0.85, weight_decay = 0.0153, units = "decoupled-1024", label_smoothing = 0.2, '
    + LOOKAHEAD
    + 'groups = [{ parameters = "biases", prefix = "whiten", until = 3.0 }, '
    '{ parameters = "biases", rate_scale = 64.0, decay_scale = 0.015625 }] }',
    'schedule={ kind = "one-cycle", learning_rate = 11.5, start_factor = 0.2, end_factor = 0.07, peak = 0.23 }',
    "model.logit_scale=0.1111111111111111",
    "run.initial=[]",
]
PROXY = [
    "model.channels=[32, 64, 64]",
    "data.train=5000",
    f"run.epochs={EPOCHS}",
    "run.evaluate={ updates = 1000000 }",
    "run.views=\"one\"",
    stages(),
    muon(),
    linear(RATE, 0.0),
]
SMALL = 2  # Epochs on small images.
DOWN = RATE * (1 - SMALL / EPOCHS)  # The rate after them.

# Name: (what it is, settings beside the proxy's). Later settings hold.
CONDITIONS = {
    "proxy": ("the proxy", []),
    "flip-random": ("flips by chance instead of in turn", [stages(flip="random")]),
    "flip-none": ("no flips", [stages(flip=None)]),
    "crop-zero": ("borders of zeros instead of reflections", [stages(padding="zero")]),
    "whiten-none": ("first filters drawn and trained instead of whitening", ["model.whiten.images=0"]),
    "dirac-none": (
        "convolutions start random instead of passing on",
        [f'run.initial=[{HEAD}, {{ parameters = "weights", prefix = "group", kind = "torch-uniform" }}]'],
    ),
    "smooth-none": ("no label smoothing", [muon(smoothing=0.0)]),
    "bias-slow": ("biases at an eighth of their rate", [muon(bias_scale=55.208333333333336 / 8)]),
    "lookahead": ("with airbench94's averaging", [muon(average=LOOKAHEAD)]),
    "nesterov": ("airbench94's Nesterov recipe instead of Muon's", NESTEROV),
    "nesterov-plain": ("the same without its averaging", [NESTEROV[0].replace(LOOKAHEAD, "")] + NESTEROV[1:]),
    "shorter": ("4 epochs instead of 5", ["run.epochs=4"]),
    "select": (
        "half of each batch, by loss, from 0.2 to 0.9 of the run",
        ["run.select={ keep = 0.5, power = 1.0, from = 0.2, until = 0.9 }"],
    ),
    "select-chance": (
        "half of each batch, by chance, from 0.2 to 0.9 of the run",
        ["run.select={ keep = 0.5, power = 0.0, from = 0.2, until = 0.9 }"],
    ),
    # The proxy's own weights, judged again.
    "flips": ("judged by each image and its mirror image", None),
    "flips-shifts": ("judged by six views of each image", None),
    # Two runs, the second from the first's weights: 24 x 24 pixels for the first epochs, then whole images.
    "resize": (f"the first {SMALL} epochs on images of 24 x 24", None),
}

VIEWS = ("flips", "flips-shifts")


def say(text):
    print(time.strftime("%H:%M:%S ") + text, file=sys.stderr, flush=True)


def record(args, name, seed, settings, extra=()):
    """The closing line of this run's record; trains it if there is none."""
    folder = args.out / name
    log = folder / "run.jsonl"

    def end():
        lines = log.read_text().splitlines() if log.exists() else []
        found = [json.loads(line) for line in lines if '"line":"end"' in line]
        return found[-1] if found and found[-1]["status"] in ("reached", "budget", "done") else None

    if end() is None:
        words = ["train", "cifar10-94", "--data", args.data, "--threads", "1", "--seed", str(seed), "--out", str(folder)]
        latest = {setting.split("=", 1)[0]: setting for setting in settings}
        words += [word for setting in latest.values() for word in ("--set", setting)] + list(extra)
        shutil.rmtree(folder, ignore_errors=True)
        before = children()
        out = subprocess.run(
            args.prefix + [args.sooner, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if out.returncode not in (0, 3):
            raise SystemExit(f"{shlex.join(words)}: exit code {out.returncode}\n{out.stderr}")
        (folder / "cpu").write_text(f"{children() - before:.2f}\n")
    return {**end(), "cpu": float((folder / "cpu").read_text())}


def children():
    """CPU seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def outcome(end):
    return {
        "accuracy": end["final"]["accuracy"],
        "cpu": end["cpu"],
        "examples": end["position"]["examples"],
    }


def run(args, name, seed):
    if name in VIEWS:
        run(args, "proxy", seed)
        return {**outcome(record(args, f"proxy-{seed}", seed, PROXY)), "accuracy": judged(args, f"proxy-{seed}", name)}
    if name != "resize":
        return outcome(record(args, f"{name}-{seed}", seed, PROXY + CONDITIONS[name][1]))
    small = [stages(side=24), f"run.epochs={SMALL}", linear(RATE, DOWN / RATE)]
    first = outcome(record(args, f"resize-small-{seed}", seed, PROXY + small))
    rest = [f"run.epochs={EPOCHS - SMALL}", linear(DOWN, 0.0), muon(bias_until=3.0 - SMALL)]
    init = ["--init", str(args.out / f"resize-small-{seed}")]
    # Another seed, so that its epochs are not those of the first run again.
    last = outcome(record(args, f"resize-{seed}", seed + 1000, PROXY + rest, init))
    return {**last, "cpu": first["cpu"] + last["cpu"], "examples": first["examples"] + last["examples"]}


def judged(args, name, views):
    """The accuracy of a record's weights by several views of each image."""
    folder = args.out / name
    kept = folder / f"{views}.json"
    if not kept.exists():
        words = ["eval", str(folder), "--data", args.data, "--views", views, "--threads", "1", "--json"]
        out = subprocess.run(args.prefix + [args.sooner, *words], stdout=subprocess.PIPE, text=True, check=True)
        kept.write_text(out.stdout.strip().splitlines()[-1] + "\n")
    return json.loads(kept.read_text())["metrics"]["accuracy"]


def interval(differences):
    mean = statistics.mean(differences)
    if len(differences) < 2:
        return mean, math.inf
    half = STUDENT[len(differences) - 1] * statistics.stdev(differences) / math.sqrt(len(differences))
    return mean, half


def percent(mean, half):
    return f"{100 * mean:+.2f} ± {100 * half:.2f}"


def table(results):
    base = results["proxy"]
    lines = [
        "| condition | n | accuracy, % | beside the proxy, points | CPU time beside the proxy's |",
        "|---|---|---|---|---|",
    ]
    for name, runs in results.items():
        seeds = sorted(set(runs) & set(base), key=int)
        accuracy = 100 * statistics.mean(runs[s]["accuracy"] for s in seeds)
        ratio = statistics.median(runs[s]["cpu"] / base[s]["cpu"] for s in seeds)
        gap = ""
        if name != "proxy":
            mean, half = interval([runs[s]["accuracy"] - base[s]["accuracy"] for s in seeds])
            gap = percent(mean, half) + (" (within noise)" if abs(mean) <= half else "")
        ratio = "" if name in VIEWS else f"{ratio:.2f}"
        lines.append(f"| {CONDITIONS[name][0]} | {len(seeds)} | {accuracy:.2f} | {gap} | {ratio} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sooner", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=5, help="1 to this, at most 10")
    parser.add_argument("--only", default=",".join(CONDITIONS))
    parser.add_argument("--prefix", type=shlex.split, default=[])
    parser.add_argument("--report", type=pathlib.Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    names = args.only.split(",")
    unknown = [name for name in names if name not in CONDITIONS]
    if unknown or not 1 <= args.seeds <= 10:
        parser.error(f"--only knows {', '.join(CONDITIONS)}; --seeds 1 to 10; found {unknown or args.seeds}")
    results = {}
    for seed in range(1, args.seeds + 1):
        for name in names:
            results.setdefault(name, {})[str(seed)] = r = run(args, name, seed)
            say(f"{name} seed {seed}: {r['accuracy']:.4f}, {r['cpu']:.1f} s of CPU")
    (args.out / "tricks.json").write_text(json.dumps(results, indent=1) + "\n")
    if "proxy" in results:
        text = table(results)
        print(text)
        if args.report:
            args.report.write_text(text + "\n")


if __name__ == "__main__":
    main()
