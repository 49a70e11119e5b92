#!/usr/bin/env python3
"""Data echoing's claim on real training: fresh examples and training time to the same target with and without echo.

A data set is packed into tar shards (`sooner data pack`) and read from a local HTTP server while training goes on. Three
conditions: no echo, examples echoed before augmentation, batches echoed; each with the best of the same three learning
rates (fewest fresh examples with seed 1), then on seeds 1, 2 and 3.

How many fresh examples a run needs does not depend on how fast they come: batches are a function of the plan. So learning
rates are chosen without a limit on reading (`--phase grid`), and a run there is stopped once it has used more fresh examples
than the best so far needed. The chosen ones are then timed (`--phase timed`), held to a rate by the plan's `data.rate`, so
that the limit is on the reading side, and exact; the server itself is as fast as it can be. The rate is such that reading one
example takes RATIO times as long as one update's share of it (R), or --up milliseconds.

    bench/echo_claim.py cifar10 --sooner target/release/sooner --data DIR --out DIR [--prefix "chrt -r 20"]
    bench/echo_claim.py flowers --sooner target/release/sooner --data DIR --out DIR

Finished runs are not run again, so that it can be stopped and started at will; a run that was killed starts over. Needs
Python 3.9 and nothing else. Writes OUT/results.json, OUT/results.tsv, OUT/echo.svg and, with --report FILE, a page.
"""

import argparse
import functools
import http.server
import json
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

TASKS = {
    "cifar10": {
        "pack": ["cifar10", "--set", "validation=2500", "--set", "test=10"],
        "train": 20000,
        "batch": 64,
        "rates": [0.15, 0.05, 0.015],
        "target": "val.error<0.50",
        "epochs": 4.0,
        "buffer": 1000,
        "model": 'kind = "resnet8"\nchannels = [16, 32, 64]',
        "front": "{ shuffle = { buffer = 256 } }, { resize = 32 }, { center-crop = 32 }",
        "augment": "{ crop = { size = 32, pad = 4 } }, { flip = \"random\" }",
        "normalize": "{ normalize = { mean = [0.4914, 0.4822, 0.4465], std = [0.2470, 0.2435, 0.2616] } }",
    },
    "flowers": {
        "pack": ["image-folder"],
        "train": None,
        "batch": 32,
        "rates": [0.06, 0.02, 0.006],
        "target": "val.error<0.45",
        "epochs": 40.0,
        "buffer": 250,
        "model": 'kind = "resnet8"\nchannels = [16, 32, 64]',
        "front": "{ shuffle = { buffer = 64 } }",
        "augment": '{ random-resized-crop = { size = 64, scale = [0.35, 1.0] } }, { flip = "random" }',
        "normalize": "{ normalize = { mean = [0.46, 0.42, 0.30], std = [0.29, 0.26, 0.29] } }",
    },
}
for common in TASKS.values():
    common.update({"grow": 1.05, "from": 0.05, "decay": 0.97})
CONDITIONS = ["none", "example", "batch"]
NAMES = {"none": "no echo", "example": "examples echoed before augmentation", "batch": "batches echoed"}
COLOURS = {"none": "#555555", "example": "#0072b2", "batch": "#d55e00"}


def say(text):
    print(time.strftime("%H:%M:%S ") + text, file=sys.stderr, flush=True)


def serve(folder):
    """Serves a folder on a free port of this machine, in threads of its own; returns the address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def handle_one_request(self):
            try:
                super().handle_one_request()
            except (ConnectionError, TimeoutError):
                # Whoever reads may stop in the middle of a shard.
                self.close_connection = True

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def plan_text(task, address, condition, options):
    """A condition's plan. `options`: name, learning_rate, echo, rate (bytes a second; None for no limit), epochs, target."""
    echo = options["echo"]
    before = after = ""
    if condition == "example":
        before = f"{{ echo = {{ factor = {echo}, buffer = {task['buffer']} }} }}, "
    if condition == "batch":
        after = f", {{ echo = {echo} }}"
    lines = [
        f'name = "{options["name"]}"',
        "seed = 1",
        "[data]",
        'kind = "webdataset"',
        f'path = "{address}"',
        "validation = 0",
    ]
    if options["rate"]:
        lines.append(f'rate = "{options["rate"]}"')
    lines += [
        "[model]",
        task["model"],
        "[pipeline]",
        f"stages = [{task['front']}, {before}{task['augment']}, {task['normalize']}, {{ batch = {task['batch']} }}{after}]",
        "threads = 1",
        "[optimizer]",
        'kind = "nesterov"',
        "momentum = 0.9",
        # A constant rate's weights are noisy: evaluations are of their average over some 30 updates.
        f"average = {{ kind = \"ema\", decay = {task['decay']} }}",
        "[schedule]",
        'kind = "constant"',
        f"learning_rate = {options['learning_rate']}",
        "[run]",
        f"epochs = {options['epochs']}",
        # The same share of the way between evaluations in all conditions, so that none has more chances of a lucky one.
        f"evaluate = {{ growing = {{ by = {task['grow']}, from = {task['from']} }} }}",
        "threads = 1",
    ]
    if options["target"]:
        lines.append(f'target = "{options["target"]}"')
    return "\n".join(lines) + "\n"


def read_record(folder):
    """The summary and the evaluations of a run; None while it is not over."""
    try:
        lines = [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]
    except (OSError, ValueError):
        return None
    if not lines or lines[-1]["line"] != "end":
        return None
    return {
        "summary": lines[-1],
        "evaluations": [line for line in lines if line["line"] == "evaluation"],
        "machine": lines[0]["machine"],
        "kernels": lines[0]["kernels"],
        "peak_gflops": lines[0]["peak_gflops"],
    }


class Bench:
    def __init__(self, args):
        self.args = args
        self.task = dict(TASKS[args.task])
        for key in ("target", "epochs", "train", "batch"):
            if getattr(args, key) is not None:
                self.task[key] = getattr(args, key)
        if args.rates:
            self.task["rates"] = args.rates
        self.out = pathlib.Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.address = None
        self.rate = None

    def sooner(self, words, log=None, watch=lambda: False):
        """Runs the command; interrupts it once `watch` says so."""
        command = shlex.split(self.args.prefix) + [str(pathlib.Path(self.args.sooner).resolve())] + words
        with open(log, "w") if log else open("/dev/null", "w") as stderr:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
            while True:
                try:
                    out, _ = child.communicate(timeout=0.5)
                    return subprocess.CompletedProcess(command, child.returncode, out)
                except subprocess.TimeoutExpired:
                    if watch():
                        child.send_signal(signal.SIGINT)
                        # Once: a second one would end it without its last line.
                        watch = lambda: False

    def pack(self):
        shards = self.out / "shards"
        if not (shards / "shards.txt").exists():
            shutil.rmtree(shards, ignore_errors=True)
            say("packing shards")
            words = ["data", "pack", self.task["pack"][0], self.args.data, *self.task["pack"][1:]]
            if self.task["train"]:
                words += ["--set", f"train={self.task['train']}"]
            done = self.sooner([*words, "--out", str(shards), "--shard-bytes", str(8 << 20), "--json"])
            if done.returncode != 0:
                sys.exit(f"packing failed: {done.stdout}")
        train = [line.split("\t") for line in (shards / "shards.txt").read_text().splitlines()]
        train = [(int(n), int(size)) for name, n, size in train if name.startswith("train")]
        self.bytes_each = sum(size for _, size in train) / sum(n for n, _ in train)
        self.examples = sum(n for n, _ in train)
        self.address = serve(shards)

    def run(self, name, condition, options, most=float("inf")):
        """One run, unless it is there already; stopped once it has used more than `most` fresh examples."""
        folder = self.out / "runs" / name
        record = read_record(folder)
        if record is None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            plan = self.out / "plans" / f"{name}.toml"
            plan.parent.mkdir(parents=True, exist_ok=True)
            options = {"name": f"echo-{self.args.task}-{condition}", **options}
            plan.write_text(plan_text(self.task, self.address, condition, options))
            words = ["train", str(plan), "--out", str(folder), "--seed", str(options["seed"]), "--json"]
            began = time.time()
            watch = lambda: fresh_so_far(folder) > most
            done = self.sooner(words, self.out / "plans" / f"{name}.log", watch)
            record = read_record(folder)
            if record is None:
                sys.exit(f"{name} failed with {done.returncode}: {done.stdout}\n{plan}")
            status, at = record["summary"]["status"], record["summary"]["position"]
            say(
                f"{name}: {status}, {at['fresh_examples']} fresh, {at['training_seconds']:.1f} s of training, "
                f"{time.time() - began:.0f} s in all"
            )
        return record

    def calibrate(self):
        """Seconds of one example's share of an update, from a run that never waits long; then the rate for R."""
        known = self.out / "rate.json"
        if known.exists():
            self.__dict__.update(json.loads(known.read_text()))
            return
        options = {"learning_rate": self.task["rates"][1], "echo": 1, "rate": None, "target": None, "seed": 1}
        epochs = self.args.calibrate / self.examples
        record = self.run("calibration", "none", {**options, "epochs": epochs})["summary"]
        down = record["time"]["train"] / record["position"]["examples"]
        self.down = down
        up = self.args.up / 1e3 if self.args.up else self.args.ratio * down
        self.rate = max(1, round(self.bytes_each / up))
        known.write_text(json.dumps({"down": down, "rate": self.rate, "bytes_each": self.bytes_each}))
        say(f"an update takes {1e3 * down:.3f} ms an example; {self.bytes_each:.0f} bytes each; rate {self.rate} bytes/s")

    def trial(self, name, condition, rate, seed, **more):
        options = {
            "learning_rate": rate,
            "echo": self.args.echo,
            "epochs": self.task["epochs"],
            "target": self.task["target"],
            "seed": seed,
        }
        most = more.pop("most", float("inf"))
        options["rate"] = more.pop("limit", None)
        return self.run(f"{name}-{condition}-lr{rate}-s{seed}", condition, {**options, **more}, most)

    def grid(self, condition):
        """The runs without a limit on reading, by learning rate."""
        grid, best = {}, float("inf")
        # Where whole batches are repeated, small rates are likelier.
        rates = self.task["rates"][:: -1 if condition == "batch" else 1]
        for rate in rates:
            grid[rate] = self.trial("grid", condition, rate, 1, most=best)
            at = reached(grid[rate], self.task["target"])
            best = min(best, at["fresh_examples"]) if at else best
        return grid

    def all(self):
        self.pack()
        if self.args.phase == "probe":
            # Runs of the grid that go on to the end, from which a target can be chosen.
            for rate in self.task["rates"]:
                self.trial("grid", "none", rate, 1, target=None)
            return
        if self.args.phase != "grid":
            self.calibrate()
        results, target = [], self.task["target"]
        for condition in self.args.conditions:
            grid = self.grid(condition)
            at = {rate: reached(record, target) for rate, record in grid.items()}
            best = min(grid, key=lambda rate: at[rate]["fresh_examples"] if at[rate] else float("inf"))
            say(f"{condition}: {({rate: a and a['fresh_examples'] for rate, a in at.items()})} -> {best}")
            for rate, record in grid.items():
                results.append({**row(condition, rate, 1, record, target), "use": "grid"})
            if self.args.phase == "grid":
                continue
            for seed in self.args.seeds:
                record = self.trial("timed", condition, best, seed, limit=self.rate)
                results.append({**row(condition, best, seed, record, target), "use": "chosen"})
                again = reached(record, target)
                if seed == 1 and again and again["fresh_examples"] != at[best]["fresh_examples"]:
                    sys.exit(f"{condition}, {best}: other bits with a limit on reading: {again} and {at[best]}")
        write(self, results)


def fresh_so_far(folder):
    """Fresh examples of a run that goes on, by its log's last whole line that has them."""
    try:
        lines = (folder / "run.jsonl").read_text().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return json.loads(line)["fresh_examples"]
        except (ValueError, KeyError):
            continue
    return 0


def reached(record, target):
    """The first evaluation that meets the target, which may be an easier one than the run's own."""
    goal = float(target.split("<")[1])
    return next((e for e in record["evaluations"] if e["error"] < goal), None)


def row(condition, rate, seed, record, target):
    s, at = record["summary"], reached(record, target)
    return {
        "condition": condition,
        "learning_rate": rate,
        "seed": seed,
        "use": "",
        "status": s["status"],
        "fresh": at["fresh_examples"] if at else None,
        "used": s["position"]["fresh_examples"],
        "examples": at["examples"] if at else None,
        "updates": at["updates"] if at else None,
        "seconds": at["training_seconds"] if at else None,
        "up": s["position"]["training_seconds"] / s["position"]["fresh_examples"],
        "down": s["time"]["train"] / s["position"]["examples"],
        "wait": s["time"]["wait"],
        "duplicates": (s.get("data") or {}).get("duplicates"),
        "curve": [
            [e["fresh_examples"], e["training_seconds"], e["error"]] for e in record["evaluations"]
        ],
        "machine": record["machine"],
        "peak_gflops": record["peak_gflops"],
    }


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


def conclude(results, echo):
    """R of the runs without echo; for each condition means over seeds, F(e), time, and the time that F(e) predicts."""
    chosen = {c: [r for r in results if r["condition"] == c and r["use"] == "chosen"] for c in CONDITIONS}
    if not chosen["none"]:
        return None
    # Without echo the trainer waits for every example, so that a run's pace is the upstream's.
    up, down = mean(r["up"] for r in chosen["none"]), mean(r["down"] for r in chosen["none"])
    ratio = up / down
    base = [r for r in chosen["none"] if r["fresh"]]
    lines = []
    for condition in CONDITIONS:
        good = [r for r in chosen[condition] if r["fresh"]]
        if not good or not base:
            continue
        fresh, seconds = mean(r["fresh"] for r in good), mean(r["seconds"] for r in good)
        f = fresh / mean(r["fresh"] for r in base)
        e = 1 if condition == "none" else echo
        own_down = mean(r["down"] for r in good)
        predicted = f * max(ratio, e) / max(ratio, 1) * mean(r["seconds"] for r in base)
        lines.append(
            {
                "condition": condition,
                "echo": e,
                "learning_rate": good[0]["learning_rate"],
                "n": len(good),
                "of": len(chosen[condition]),
                "fresh": fresh,
                "fresh_range": [min(r["fresh"] for r in good), max(r["fresh"] for r in good)],
                "seconds": seconds,
                "seconds_range": [min(r["seconds"] for r in good), max(r["seconds"] for r in good)],
                "f": f,
                "down": own_down,
                "predicted_seconds": predicted,
                "off": seconds / predicted - 1,
                "speedup": mean(r["seconds"] for r in base) / seconds,
            }
        )
    return {"up": up, "down": down, "ratio": ratio, "conditions": lines}


def write(bench, results):
    out = bench.out
    verdict = conclude(results, bench.args.echo)
    about = {
        "task": bench.args.task,
        "echo": bench.args.echo,
        "rate": bench.rate,
        "bytes_each": bench.bytes_each,
        **{key: bench.task[key] for key in ("target", "batch", "rates", "train", "epochs", "buffer", "grow", "from", "decay")},
    }
    (out / "results.json").write_text(json.dumps({"about": about, "verdict": verdict, "runs": results}, indent=1))
    keys = [key for key in results[0] if key not in ("curve", "machine")]
    table = ["\t".join(keys)] + ["\t".join(str(r[key]) for key in keys) for r in results]
    (out / "results.tsv").write_text("\n".join(table) + "\n")
    (out / "echo.svg").write_text(picture(results, bench.task["target"], bench.args.task))
    if bench.args.records:
        keep_records(out / "runs", pathlib.Path(bench.args.records))
    if bench.args.report and verdict:
        pathlib.Path(bench.args.report).write_text(report(about, verdict, results))


def keep_records(runs, to):
    """Plans and logs, without weights and checkpoints."""
    for folder in sorted(runs.iterdir()):
        if read_record(folder):
            (to / folder.name).mkdir(parents=True, exist_ok=True)
            for name in ("plan.toml", "run.jsonl"):
                # Where they lay says nothing to others.
                text = (folder / name).read_text().replace(str(runs.parent.resolve()), "OUT")
                (to / folder.name / name).write_text(text)


def report(about, verdict, results):
    """The table of one task, in Markdown."""
    lines = [
        f"R = {1e3 * verdict['up']:.3f} ms / {1e3 * verdict['down']:.3f} ms = {verdict['ratio']:.2f}, "
        f"echo factor {about['echo']}, target `{about['target']}`.",
        "",
        "| condition | learning rate | runs that reached | fresh examples (range) | F(e) | training time (range) "
        "| predicted | off | speed-up |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for c in verdict["conditions"]:
        low, high = c["fresh_range"]
        fast, slow = c["seconds_range"]
        lines.append(
            f"| {NAMES[c['condition']]}, e = {c['echo']} | {c['learning_rate']} | {c['n']} of {c['of']} "
            f"| {c['fresh']:.0f} ({low} to {high}) | {c['f']:.3f} | {c['seconds']:.1f} s ({fast:.1f} to {slow:.1f}) "
            f"| {c['predicted_seconds']:.1f} s | {100 * c['off']:+.1f} % | {c['speedup']:.2f} |"
        )
    lines += ["", "Every run:", ""]
    lines.append("| condition | learning rate | seed | use | fresh | updates | ms an example in updates | seconds | wait |")
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for r in results:
        cells = [r["fresh"], r["updates"]] if r["fresh"] else [f"{r['status']} at {r['used']}", ""]
        # A grid run's time says nothing: it is not held to the rate.
        cells += [f"{r['seconds']:.1f}", f"{r['wait']:.1f}"] if r["use"] == "chosen" and r["fresh"] else ["", ""]
        lines.append(
            f"| {r['condition']} | {r['learning_rate']} | {r['seed']} | {r['use']} | {cells[0]} | {cells[1]} "
            f"| {1e3 * r['down']:.3f} | {cells[2]} | {cells[3]} |"
        )
    return "\n".join(lines) + "\n"


def picture(results, target, task):
    """Error against fresh examples and against training time, a line a seed."""
    chosen = [r for r in results if r["use"] == "chosen"]
    width, height, left, top, gap = 420, 260, 56, 46, 80
    goal = float("".join(ch for ch in target if ch.isdigit() or ch == "."). strip(".") or 0)
    errors = [point[2] for r in chosen for point in r["curve"]] + [goal]
    low, high = min(errors) * 0.95, max(errors)
    parts = []

    def panel(x0, index, label, scale):
        most = max([point[index] for r in chosen for point in r["curve"]] or [1]) or 1
        px = lambda v: x0 + width * v / most
        py = lambda e: top + height * (high - e) / (high - low)
        parts.append(f'<rect x="{x0}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>')
        for k in range(5):
            v = most * k / 4
            parts.append(f'<text x="{px(v):.1f}" y="{top + height + 16}" text-anchor="middle">{scale(v)}</text>')
            e = low + (high - low) * k / 4
            parts.append(f'<text x="{x0 - 6}" y="{py(e) + 4:.1f}" text-anchor="end">{e:.2f}</text>')
        parts.append(f'<text x="{x0 + width / 2}" y="{top + height + 36}" text-anchor="middle">{label}</text>')
        parts.append(
            f'<line x1="{x0}" x2="{x0 + width}" y1="{py(goal):.1f}" y2="{py(goal):.1f}" stroke="#888" stroke-dasharray="4 3"/>'
        )
        for r in chosen:
            points = " ".join(f"{px(p[index]):.1f},{py(p[2]):.1f}" for p in r["curve"])
            colour = COLOURS[r["condition"]]
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3" opacity="0.8"/>')
            end = next((p for p in r["curve"] if p[2] < goal), None)
            if end:
                parts.append(f'<circle cx="{px(end[index]):.1f}" cy="{py(end[2]):.1f}" r="3" fill="{colour}"/>')

    panel(left, 0, "fresh examples", lambda v: f"{v / 1000:.0f}k")
    panel(left + width + gap, 1, "training time (s)", lambda v: f"{v:.0f}")
    for k, condition in enumerate(CONDITIONS):
        x = left + k * 290
        parts.append(f'<line x1="{x}" x2="{x + 24}" y1="18" y2="18" stroke="{COLOURS[condition]}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 30}" y="22">{NAMES[condition]}</text>')
    parts.append(f'<text x="{left}" y="38" fill="#555">{task}: validation error to {target.replace("<", "&lt;")}, a line a seed</text>')
    total = left + 2 * width + gap + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {top + height + 50}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--sooner", default="target/release/sooner", help="the command")
    parser.add_argument("--data", required=True, help="folder of the data set's files")
    parser.add_argument("--out", required=True, help="folder for shards, runs and results")
    parser.add_argument("--prefix", default="", help='put before every run, such as "chrt -r 10"')
    parser.add_argument("--ratio", type=float, default=6.0, help="R to aim at")
    parser.add_argument("--echo", type=int, default=5, help="the echo factor, as advised for such an R")
    parser.add_argument("--up", type=float, help="milliseconds of reading an example, rather than R of them")
    parser.add_argument("--phase", default="all", choices=["probe", "grid", "timed", "all"], help="how far to go")
    parser.add_argument("--calibrate", type=int, default=20000, help="examples of the run that sets the rate")
    parser.add_argument("--conditions", nargs="+", default=CONDITIONS, choices=CONDITIONS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--rates", nargs="+", type=float, help="the grid of learning rates, likeliest first")
    parser.add_argument("--target")
    parser.add_argument("--epochs", type=float, help="most epochs of fresh examples of a run")
    parser.add_argument("--train", type=int, help="examples of the training split")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--records", help="copy plans and logs of the runs to this folder")
    parser.add_argument("--report", help="write the tables to this Markdown file")
    Bench(parser.parse_args()).all()


if __name__ == "__main__":
    main()
