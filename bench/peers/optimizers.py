"""Writes crates/engine/tests/data/optimizers.tsv: twenty updates of a small network by PyTorch's optimisers, in double
precision on a CPU, and by the published definitions of those that PyTorch does not have (LARS, lookahead) or has only
in half precision (Muon). The Rust test of the same name makes the same updates.

Usage: python bench/peers/optimizers.py > crates/engine/tests/data/optimizers.tsv   (PyTorch 2.15.0 wrote the present one)
"""

import math
import sys

import torch

UPDATES, LR, MOMENTUM, DECAY = 20, 0.1, 0.9, 0.01
SHAPES = {"layer1.weight": (4, 6), "layer1.bias": (6,), "layer2.weight": (6, 3), "layer2.bias": (3,)}


def values(shape, salt):
    count = math.prod(shape)
    return torch.tensor([0.5 * math.sin(0.7 * i + salt) for i in range(count)], dtype=torch.float64).reshape(shape)


FEATURES = values((8, 4), 5.0) * 2.0
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 1, 0])


def parameters():
    return {n: values(s, float(k)).requires_grad_() for k, (n, s) in enumerate(SHAPES.items())}


def loss(p):
    hidden = torch.tanh(FEATURES @ p["layer1.weight"] + p["layer1.bias"])
    return torch.nn.functional.cross_entropy(hidden @ p["layer2.weight"] + p["layer2.bias"], LABELS)


def rate(t):
    return LR * (1.0 - 0.04 * t)


def run(step, after=None, clip=None):
    """step(t, parameters with gradients) changes the parameters in place."""
    p = parameters()
    for t in range(UPDATES):
        for v in p.values():
            v.grad = None
        last = loss(p)
        last.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(p.values(), clip)
        step(t, p)
        if after is not None:
            after(t, p)
    return last.item(), p


def torch_optimizer(make):
    state = {}

    def step(t, p):
        if not state:
            state["optimizer"] = make(list(p.values()))
        for group in state["optimizer"].param_groups:
            group["lr"] = rate(t)
        state["optimizer"].step()

    return step


def nesterov():
    return torch_optimizer(
        lambda ps: torch.optim.SGD(ps, lr=LR, momentum=MOMENTUM, nesterov=True, weight_decay=DECAY)
    )


@torch.no_grad()
def descend(p, g, state, t, momentum=MOMENTUM):
    """PyTorch's Nesterov on one tensor."""
    g = g + DECAY * p
    state["v"] = momentum * state.get("v", torch.zeros_like(p)) + g
    p -= rate(t) * (g + momentum * state["v"])


def lars(trust):
    """You, Gitman, Ginsburg (2017), algorithm 1; biases without adaptation, as in the authors' experiments."""
    velocity = {}

    @torch.no_grad()
    def step(t, p):
        for name, w in p.items():
            g, local = w.grad, 1.0
            if name.endswith("weight"):
                local = trust * w.norm() / (g.norm() + DECAY * w.norm())
            v = MOMENTUM * velocity.get(name, torch.zeros_like(w)) + rate(t) * local * (g + DECAY * w)
            velocity[name] = v
            w -= v

    return step


def muon(rounds, renormalize):
    """Jordan (2024), in double precision: Newton and Schulz's iteration on [outputs, inputs]. With `renormalize` the
    form of airbench94_muon. Biases by Nesterov."""
    states = {}

    @torch.no_grad()
    def step(t, p):
        for name, w in p.items():
            state = states.setdefault(name, {})
            if not name.endswith("weight"):
                # Decoupled decay, as for the weights.
                g = w.grad
                state["v"] = MOMENTUM * state.get("v", torch.zeros_like(w)) + g
                w *= 1.0 - rate(t) * DECAY
                w -= rate(t) * (g + MOMENTUM * state["v"])
                continue
            g = w.grad.T
            state["v"] = MOMENTUM * state.get("v", torch.zeros_like(g)) + g
            x = g + MOMENTUM * state["v"]
            x = x / (x.norm() + 1e-7)
            wide = x if x.shape[0] <= x.shape[1] else x.T
            for _ in range(rounds):
                a = wide @ wide.T
                wide = 3.4445 * wide + (-4.7750 * a + 2.0315 * a @ a) @ wide
            x = wide if x.shape[0] <= x.shape[1] else wide.T
            w *= 1.0 - rate(t) * DECAY
            outputs, inputs = x.shape
            if renormalize:
                # The norm of the weight before the step; scaling and decay commute.
                w *= math.sqrt(outputs) / (w.norm() / (1.0 - rate(t) * DECAY))
            else:
                x = x * math.sqrt(max(1.0, outputs / inputs))
            w -= rate(t) * x.T

    return step


def averages(every, decay, back):
    state = {}

    @torch.no_grad()
    def after(t, p):
        if not state:
            state.update({n: values(SHAPES[n], float(k)) for k, n in enumerate(SHAPES)})
        if (t + 1) % every == 0:
            for name, w in p.items():
                state[name] = decay * state[name] + (1.0 - decay) * w
                if back:
                    w.copy_(state[name])

    return after, state


def write(case, result):
    last, p = result
    for name, v in [("loss", [last])] + [(n, v.detach().flatten().tolist()) for n, v in p.items()]:
        print("\t".join([case, name] + [f"{x:.17g}" for x in v]))


print(f"# PyTorch {torch.__version__}; origin: bench/peers/optimizers.py")
write("sgd", run(torch_optimizer(lambda ps: torch.optim.SGD(ps, lr=LR, weight_decay=DECAY))))
write("heavy-ball", run(torch_optimizer(lambda ps: torch.optim.SGD(ps, lr=LR, momentum=MOMENTUM, weight_decay=DECAY))))
write("nesterov", run(nesterov()))
write("nesterov-clipped", run(nesterov(), clip=0.3))
adam = dict(lr=LR, betas=(MOMENTUM, 0.99), eps=1e-6, weight_decay=DECAY)
write("adam", run(torch_optimizer(lambda ps: torch.optim.Adam(ps, **adam))))
write("adamw", run(torch_optimizer(lambda ps: torch.optim.AdamW(ps, **adam))))
write("lars", run(lars(0.02)))
write("muon", run(muon(5, False)))
write("muon-renormalized", run(muon(3, True)))
after, mean = averages(5, 0.9, False)
write("average", (run(nesterov(), after)[0], mean))
after, _ = averages(5, 0.9, True)
write("lookahead", run(nesterov(), after))
