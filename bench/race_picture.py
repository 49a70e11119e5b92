#!/usr/bin/env python3
"""Accuracy against time: records of `sooner train` beside published DAWNBench entries, on a logarithmic axis.

    bench/race_picture.py --entries crates/study/tests/data/dawnbench --goal 0.94 -o picture.svg RUN...

RUN is a record's folder. Each run is a line of its evaluations against DAWNBench's clock; its end, judged by all views of
its images, is a dot. Python 3.9 and nothing else. Prints a table of the runs in Markdown.
"""
import argparse
import csv
import json
import math
import statistics
from pathlib import Path
from xml.sax.saxutils import escape

# The entries' own words about their hardware, shortened; from the descriptions that lie beside the tables.
ENTRIES = {
    "basenet": "bkj, 2018: 1 V100",
    "davidcpage_resnet9_1v100-ec2_pytorch": "Page, 2018: 1 V100",
    "kakaobrain_custom-resnet9_4v100-braincloud_pytorch": "Kakao Brain, 2019: 4 V100",
    "apple_resnet9_8v100_pytorch": "Apple, 2019: 8 V100",
    "diux_cifar_g3": "DIUX, 2018: g3.4xlarge",
}
# Means of many runs, by their authors: seconds to 94 % with their own clock (final evaluation in).
POINTS = [("airbench94: A100", 3.83), ("its Muon variant: A100", 2.59)]
COLOURS = ["#b5651d", "#2a8a3e", "#8e44ad", "#c0932f", "#888"]


def evaluations(folder):
    """Rows of (training seconds, accuracy, views) and the closing summary of a record."""
    rows, end = [], None
    for text in (Path(folder) / "run.jsonl").read_text().splitlines():
        line = json.loads(text)
        if line["line"] == "evaluation":
            rows.append((line["training_seconds"], line["accuracy"], line.get("seen")))
        if line["line"] == "end":
            end = line
    return rows, end


def entry(path):
    """Rows of (seconds, accuracy) of a DAWNBench table."""
    with open(path, encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [(float(row["hours"]) * 3600, float(row["top1Accuracy"]) / 100) for row in rows]


def picture(runs, entries, goal):
    left, top, width, height, right = 60, 30, 640, 360, 190
    low, high = 0.5, 0.97
    first, last = 1.0, 20000.0
    x = lambda s: left + width * math.log(max(s, first) / first) / math.log(last / first)
    y = lambda a: top + height * (high - max(a, low)) / (high - low)
    parts = [f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>']
    for k in range(5):
        s = 10**k
        parts.append(f'<line x1="{x(s):.1f}" x2="{x(s):.1f}" y1="{top}" y2="{top + height}" stroke="#eee"/>')
        parts.append(f'<text x="{x(s):.1f}" y="{top + height + 18}" text-anchor="middle">{s:,} s</text>')
    for percent in range(50, 100, 10):
        parts.append(f'<text x="{left - 8}" y="{y(percent / 100) + 4:.1f}" text-anchor="end">{percent} %</text>')
    parts.append(
        f'<line x1="{left}" x2="{left + width}" y1="{y(goal):.1f}" y2="{y(goal):.1f}" stroke="#c33" stroke-dasharray="5 3"/>'
        f'<text x="{left - 8}" y="{y(goal) + 4:.1f}" text-anchor="end" fill="#c33">{100 * goal:.0f} %</text>'
    )
    labels = []
    for (name, rows), colour in zip(entries, COLOURS):
        # Up to where it meets the goal: what follows is no part of the race.
        met = next((k for k, (_, a) in enumerate(rows) if a >= goal), len(rows) - 1)
        rows = [row for row in rows[: met + 1] if row[0] > 0]
        points = " ".join(f"{x(s):.1f},{y(a):.1f}" for s, a in rows if a >= low)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        labels.append((rows[-1][0], f"{name} ({rows[-1][0]:,.0f} s)", colour))
    for name, seconds in POINTS:
        parts.append(f'<circle cx="{x(seconds):.1f}" cy="{y(goal):.1f}" r="4" fill="#777"/>')
    for k, (rows, _) in enumerate(runs):
        points = " ".join(f"{x(s):.1f},{y(a):.1f}" for s, a, _ in rows if a >= low)
        parts.append(f'<polyline points="{points}" fill="none" stroke="#1668b0" stroke-width="1.3" opacity="0.8"/>')
        parts.append(f'<circle cx="{x(rows[-1][0]):.1f}" cy="{y(rows[-1][1]):.1f}" r="3.5" fill="#1668b0"/>')
    # What the lines are, in order of their ends, beside the picture.
    labels.sort()
    rows = [("sooner cifar10-94: CPU", "#1668b0")] + [(name, colour) for _, name, colour in labels]
    rows += [(f"{name} ({seconds} s, dot)", "#777") for name, seconds in POINTS]
    for k, (name, colour) in enumerate(rows):
        at = top + 16 + 20 * k
        parts.append(f'<line x1="{left + width + 12}" x2="{left + width + 30}" y1="{at - 4}" y2="{at - 4}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{left + width + 36}" y="{at}">{escape(name)}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">training time (logarithmic)</text>')
    parts.append(f'<text x="{left}" y="18" fill="#555">CIFAR-10: test accuracy against time to train</text>')
    total = left + width + right + 60
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {top + height + 50}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>\n"
    )


def table(folders, runs):
    out = ["| run | threads | accuracy | one view | training, s | with the final evaluation, s | wall, s | share of the peak |"]
    out.append("|---|---|---|---|---|---|---|---|")
    finals = []
    for folder, (rows, end) in zip(folders, runs):
        header = json.loads((Path(folder) / "run.jsonl").read_text().splitlines()[0])
        seen = end.get("seen") or {"one": end["final"]}
        training, final = end["position"]["training_seconds"], end.get("final_evaluation")
        finals.append(end["final"]["accuracy"])
        both = f"{training + final:.1f}" if final is not None else "-"
        out.append(
            f"| seed {header['seed']} | {header['threads']} | {end['final']['accuracy']:.4f} | {seen['one']['accuracy']:.4f} | "
            f"{training:.1f} | {both} | {end['position']['wall_seconds']:.1f} | {100 * end['ceiling']['share']:.0f} % |"
        )
    if len(finals) > 1:
        out.append(f"\nmean {statistics.mean(finals):.4f}, sd {statistics.stdev(finals):.4f}, n = {len(finals)}")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--entries", required=True, help="folder of DAWNBench tables")
    parser.add_argument("--goal", type=float, default=0.94)
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    runs = [evaluations(folder) for folder in args.runs]
    for folder, (rows, end) in zip(args.runs, runs):
        if not rows or end is None:
            raise SystemExit(f"{folder}: the run is not over")
    entries = [(name, entry(Path(args.entries) / f"{file}.tsv")) for file, name in ENTRIES.items()]
    Path(args.output).write_text(picture(runs, entries, args.goal))
    print(table(args.runs, runs))


if __name__ == "__main__":
    main()
