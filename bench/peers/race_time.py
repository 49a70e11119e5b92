#!/usr/bin/env python3
"""Time of the race to 94 %: one epoch of `sooner train cifar10-94` and one of the same recipe in PyTorch, in turn.

    bench/peers/race_time.py SOONER CIFAR-10-FOLDER [--rounds 2] [--epochs 9] [--threads 2] [--prefix "chrt -r 10"]

Each side's run of so many epochs is reckoned as its whitening, that many times the median epoch, and its evaluation over flips
and shifts: the clock in which the final evaluation counts. Plain evaluations after epochs, reading and building do not.
Needs PyTorch beside it (airbench_muon.py). Prints every round, then one JSON object.
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile


def last_json(command):
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    lines = out.stdout.strip().splitlines()
    # One epoch reaches no target: 3 is as good an end as 0.
    if out.returncode not in (0, 3) or not lines:
        raise SystemExit(f"{shlex.join(command)}: exit code {out.returncode}")
    return json.loads(lines[-1])


def ours(args):
    with tempfile.TemporaryDirectory() as folder:
        words = ["train", "cifar10-94", "--data", args.data, "--epochs", "1", "--threads", str(args.threads)]
        r = last_json(args.prefix + [args.sooner, *words, "--json", "--out", f"{folder}/run"])
        line = next(
            json.loads(text)
            for text in pathlib.Path(f"{folder}/run/run.jsonl").read_text().splitlines()
            if '"line":"run"' in text
        )
    time = r["time"]
    epoch = time["wait"] + time["train"] + time["log"]
    whitening = r["position"]["training_seconds"] - epoch
    versions = {"sooner": line["sooner"], "kernels": line["kernels"], "peak_gflops": r["ceiling"]["peak_gflops"]}
    return {"epoch": epoch, "whitening": whitening, "evaluation": r["final_evaluation"], "versions": versions}


def theirs(args):
    script = str(pathlib.Path(__file__).with_name("airbench_muon.py"))
    words = [args.data, "--epochs", "1", "--threads", str(args.threads), "--json"]
    r = last_json(args.prefix + [sys.executable, script, *words])
    return {
        "epoch": r["epochs"][0]["training_seconds"],
        "whitening": r["whiten_seconds"] + r["prepare_seconds"],
        "evaluation": r["final_evaluation_seconds"],
        "versions": {key: r[key] for key in ("torch", "python", "compiled")},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sooner")
    parser.add_argument("data", help="folder of CIFAR-10's binary batches")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=9, help="of the run that is reckoned")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefix", type=shlex.split, default=[], help="what both commands are started with")
    args = parser.parse_args()
    rows = {"pytorch": [], "sooner": []}
    for k in range(args.rounds):
        for name, side in [("pytorch", theirs), ("sooner", ours)]:
            rows[name].append(side(args))
            shown = {key: round(value, 2) for key, value in rows[name][-1].items() if key != "versions"}
            print(f"round {k + 1}: {name} {shown}", file=sys.stderr, flush=True)
    whole = {}
    for name, of in rows.items():
        median = {key: statistics.median(row[key] for row in of) for key in ("epoch", "whitening", "evaluation")}
        whole[name] = median["whitening"] + args.epochs * median["epoch"] + median["evaluation"]
    print(
        json.dumps(
            {
                "epochs": args.epochs,
                "threads": args.threads,
                "rounds": rows,
                "seconds": whole,
                "ratio": whole["sooner"] / whole["pytorch"],
            }
        )
    )


if __name__ == "__main__":
    main()
