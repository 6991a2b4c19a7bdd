# SPDX-License-Identifier: Apache-2.0
"""Embedding core in NumPy float64, written from the formulas, for comparison."""

from __future__ import annotations

import numpy as np

from estimator_spec.core.embedding import optimizers


def clip(value, low, high):
    """Clips a value to the limits that aren't None."""
    if low is not None:
        value = np.maximum(value, low)
    if high is not None:
        value = np.minimum(value, high)
    return value


def proximal(w, eta, p):
    """Applies the proximal operator of l1 and l2."""
    shrunk = np.sign(w) * np.maximum(np.abs(w) - eta * p.l1_regularization_strength, 0)
    return shrunk / (1 + eta * p.l2_regularization_strength)


def rest(part):
    """Returns 1 - part in float32: at 0.999 the difference to float64 isn't small."""
    return float(np.float32(1) - np.float32(part))


def rule(p, w, s, g, lr, step):
    """Updates one row; returns the new row and slots."""
    name = type(p).__name__.removesuffix("Parameters")
    if name == "StochasticGradientDescent":
        return w - lr * g, {}
    if name == "Adagrad":
        a = s["accumulator"] + g**2
        return w - lr * g / np.sqrt(a), {"accumulator": a}
    if name == "AdagradMomentum":
        old = s["accumulator"]
        a = old + g**2 if p.beta2 == 1 else p.beta2 * old + rest(p.beta2) * g**2
        scaled = (a + p.epsilon) ** (-1 / p.exponent) * g
        m = p.momentum * s["momenta"] + scaled
        u = p.momentum * m + scaled if p.use_nesterov else m
        return w - lr * u, {"accumulator": a, "momenta": m}
    if name == "ProximalAdagrad":
        a = s["accumulator"] + g**2
        eta = lr / np.sqrt(a)
        return proximal(w - eta * g, eta, p), {"accumulator": a}
    if name == "Adam":
        m = p.beta1 * s["m"] + rest(p.beta1) * g
        v = p.beta2 * s["v"] + rest(p.beta2) * g**2
        root = np.sqrt(v + p.epsilon**2) if p.sum_inside_sqrt else np.sqrt(v) + p.epsilon
        return w - lr * m / root, {"m": m, "v": v}
    if name == "Ftrl":
        return ftrl(p, w, s, g, lr)
    if name == "ProximalYogi":
        m = p.beta1 * s["m"] + rest(p.beta1) * g
        v = s["v"] - rest(p.beta2) * np.sign(s["v"] - g**2) * g**2
        eta = lr / (np.sqrt(v) + p.epsilon)
        return proximal(w - eta * m, eta, p), {"v": v, "m": m}
    if name == "Momentum":
        m = p.momentum * s["momenta"] + g
        return w - lr * (g + p.momentum * m if p.use_nesterov else m), {"momenta": m}
    if name == "RMSProp":
        ms = p.rho * s["ms"] + rest(p.rho) * g**2
        mom = p.momentum * s["mom"] + lr * g / np.sqrt(ms + p.epsilon)
        return w - mom, {"ms": ms, "mom": mom}
    since = step - s["last_hit_step"]
    c = np.minimum(since, p.max_delta)
    new = np.where(since >= p.outlier_threshold * w, c, w * rest(p.tau) + c * p.tau)
    return new, {"last_hit_step": np.full_like(w, step)}


def ftrl(p, w, s, g, lr):
    """Updates one row by Ftrl; with multiply_linear_by_learning_rate the slot holds z·lr."""
    unit = lr if p.multiply_linear_by_learning_rate else 1.0
    a, z = s["accumulator"], s["linear"] / unit
    new_a = a + g**2
    power = -p.learning_rate_power
    z = z + g - (new_a**power - a**power) / lr * w
    l1, l2 = p.l1_regularization_strength, p.l2_regularization_strength + p.beta / (2 * lr)
    w = np.where(np.abs(z) > l1, (np.sign(z) * l1 - z) / (new_a**power / lr + 2 * l2), 0.0)
    return w, {"accumulator": new_a, "linear": z * unit}


class Table:
    """Table with its slots, trained row by row."""

    def __init__(self, values, parameters):
        self.w = values.astype(np.float64)
        self.p = parameters
        self.slots = {
            name: np.full_like(self.w, initial)
            for name, initial in optimizers.slot_initial_values(parameters).items()
        }

    def update(self, occurrences, lr, step, replicas=1):
        """Applies a step: `occurrences` is a list of (row, gradient, replica)."""
        p = self.p
        sums = {}
        for row, g, replica in occurrences:
            # Turn 0 is that of the replica on which the row resides.
            turn = 0 if p.use_gradient_accumulation else (replica - row) % replicas
            sums[turn, row] = sums.get((turn, row), 0) + g
        looked_up = set(sums)
        if not getattr(p, "lazy_adam", True):
            zeros = np.zeros(self.w.shape[1])
            sums = {(0, row): sums.get((0, row), zeros) for row in range(len(self.w))}
        factor = p.weight_decay_factor or 0.0
        if p.multiply_weight_decay_factor_by_learning_rate:
            factor *= lr
        for turn, row in sorted(sums):
            g = clip(sums[turn, row], p.clip_gradient_min, p.clip_gradient_max)
            before = self.w[row]
            slots = {name: slot[row] for name, slot in self.slots.items()}
            after, slots = rule(p, before, slots, g, lr, step)
            for name, value in slots.items():
                self.slots[name][row] = value
            if (turn, row) in looked_up:
                after = after - factor * before
            self.w[row] = clip(after, p.clip_weight_min, p.clip_weight_max)


def look_up(w, batch, combiner, length=0):
    """Returns activations of a batch of [(id, weight), …] rows, and the factor of each occurrence.

    Returns (activations, [(row id, coefficient, place in the activations)]).
    """
    dimension = w.shape[1]
    shape = (len(batch), length, dimension) if length else (len(batch), dimension)
    out, uses = np.zeros(shape), []
    for i, row in enumerate(batch):
        groups = (
            [((i, t), [pair]) for t, pair in enumerate(row[:length])] if length else [((i,), row)]
        )
        for place, pairs in groups:
            weights = np.array([weight for _, weight in pairs], np.float64)
            norm = {
                "sum": 1.0,
                "mean": weights.sum(),
                "sqrtn": np.sqrt((weights**2).sum()),
            }[combiner]
            for (id_, _), weight in zip(pairs, weights, strict=True):
                out[place] += weight / norm * w[id_]
                uses.append((id_, weight / norm, place))
    return out, uses
