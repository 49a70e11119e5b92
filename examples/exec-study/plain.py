"""A noisy quadratic trained by stochastic gradient descent, in plain Python: the smallest thing worth a study.

Dimension i (from 1) has curvature 1/i; a batch of B examples gives the gradient h * theta + noise of variance h / B.
"""

import argparse
import json
import math
import os
import random

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--updates", type=int, default=1500)
args = parser.parse_args()

# The seed comes by the environment, to show both ways.
noise = random.Random(int(os.environ["TRIAL_SEED"]))
curvature = [1.0 / i for i in range(1, 21)]
theta = [1.0] * len(curvature)
print("curvatures from", curvature[-1], "to", curvature[0], flush=True)

next_look = 1
for update in range(1, args.updates + 1):
    for i, h in enumerate(curvature):
        gradient = h * theta[i] + noise.gauss(0.0, math.sqrt(h / args.batch))
        theta[i] -= args.learning_rate * gradient
    loss = sum(0.5 * h * t * t for h, t in zip(curvature, theta))
    if not math.isfinite(loss) or loss > 1e6:
        print(json.dumps({"diverged": True}), flush=True)
        break
    if update >= next_look:
        print(json.dumps({"updates": update, "val.loss": loss}), flush=True)
        next_look = max(update + 1, int(update * 1.03))
