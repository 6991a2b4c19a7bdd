# SPDX-License-Identifier: Apache-2.0
"""Calls each op with random attributes, shapes and ids, most of them wrong in a few places.

    python tests/tpu_columns/kernels/random_calls.py 10000

An op computes something or raises an error. If it ends the process, the seed of the call is the
last line that was printed.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tpu_columns.kernels import loading

ROWS, WIDTH, BATCH = 7, 3, 4
NUMBERS = (-(1 << 63), -(1 << 61), -2, -1, 0, 1, 2, 5, 1 << 31, 1 << 61, (1 << 63) - 1)
# Least and largest gradient, weight decay, least and largest weight.
LIMITS = [-1.0, 1.0, 0.1, -9.0, 9.0]
# Not so many rows and columns that a machine would try to have them, and run out of memory.
SIZES = (-1, 0, 1, 5, 1 << 60)
REFUSED = (tf.errors.OpError, ValueError, TypeError, OverflowError)

Arguments = dict[str, Any]


class Calls:
    """Draws arguments of ops, and calls them.

    Args:
        ops: module of the ops.
    """

    def __init__(self, ops: Any) -> None:
        self._ops = ops
        self._variables = [tf.Variable(tf.ones([ROWS, WIDTH])) for _ in range(4)]
        self._others = [
            tf.Variable(tf.ones([ROWS, WIDTH + 1])),
            tf.Variable(tf.ones([ROWS])),
            tf.Variable(tf.ones([ROWS, WIDTH], tf.int64)),
            tf.Variable(tf.ones([0, WIDTH])),
        ]
        self._kinds = (
            self._update,
            self._row_gradients,
            self._tables,
            self._tables,
            self._use_huge_pages,
        )
        self.outcomes: collections.Counter[str] = collections.Counter()

    def call(self, seed: int) -> None:
        """Makes one call."""
        random = np.random.default_rng(seed)
        kind = self._kinds[random.integers(len(self._kinds))]
        try:
            kind(random)
            outcome = "computed"
        except REFUSED:
            outcome = "refused"
        self.outcomes[f"{kind.__name__}: {outcome}"] += 1

    def _run(self, function: Callable[..., Any], random: Any, arguments: Arguments) -> Any:
        for _ in range(random.choice([0, 1, 1, 2, 3])):
            name = random.choice(sorted(arguments))
            arguments[name] = self._change(random, name, arguments[name])
        return function(**arguments)

    def _change(self, random: Any, name: str, value: Any) -> Any:
        """Returns an argument with something wrong, maybe."""
        if isinstance(value, list):
            value = list(value)
            turn = random.integers(4)
            if turn == 0:
                return value[:-1]
            if turn == 1 and value:
                return [*value, value[0]]
            if not value:
                return value
            place = random.integers(len(value))
            value[place] = self._change(random, name, value[place])
            return value
        if isinstance(value, (bool, str)):
            return value
        if name == "num_layers":  # TensorFlow itself makes as many outputs
            return int(random.integers(1, 5))
        if name in ("width", "widths"):
            return int(random.choice(np.array(SIZES)))
        if isinstance(value, int):
            return int(random.choice(np.array(NUMBERS, object)))
        if isinstance(value, tf.Tensor) and value.dtype == tf.resource:
            return random.choice([*self._others, *self._variables]).handle
        if isinstance(value, np.ndarray):
            return self._other_array(random, name, value)
        return value

    def _other_array(self, random: Any, name: str, value: np.ndarray) -> np.ndarray:
        if name in ("shape", "shapes"):
            changed = value.copy()
            if changed.size:
                changed[random.integers(changed.size)] = random.choice(np.array(SIZES))
            return changed
        if random.integers(2):
            shape = [int(size) for size in random.integers(0, 5, random.integers(0, 4))]
            return np.resize(value, shape) if value.size else np.zeros(shape, value.dtype)
        changed = value.copy().reshape(-1)
        if changed.size:
            if value.dtype.kind == "f":
                changed[0] = random.choice([np.nan, np.inf, -1.0, 0.0])
            else:
                limits = np.iinfo(value.dtype)
                wrong = [limits.min, -1, 0, ROWS - 1, ROWS, limits.max]
                changed[random.integers(changed.size)] = random.choice(np.array(wrong, value.dtype))
        return changed.reshape(value.shape)

    def _use_huge_pages(self, random: Any) -> None:
        values = np.arange(random.choice([0, 5, 5000, 100_000]), dtype=np.float32)
        arguments = {"values": values, "page_bytes": 1 << int(random.integers(12, 22))}
        self._run(self._ops.tpu_columns_use_huge_pages, random, arguments)

    def _ids(self, random: Any, shape: Any) -> np.ndarray:
        return random.integers(0, ROWS, shape).astype(random.choice([np.int32, np.int64]))

    def _update(self, random: Any) -> None:
        rule, slots, hyperparameters = (
            ("adagrad", 1, 1),
            ("adagrad_v2", 1, 2),
            ("ftrl", 2, 4),
            ("ftrl_v2", 2, 5),
            ("momentum", 1, 3),
            ("centered_rms_prop", 3, 4),
        )[random.integers(6)]
        sums = bool(random.integers(2))
        ids = self._ids(random, [5])
        ids = ids if sums else np.unique(ids)
        first = int(random.integers(0, len(ids) + 1))
        gradients = random.normal(size=[len(ids), WIDTH]).astype(np.float32)
        powers = [-0.5] if rule.startswith("ftrl") else []
        values = [*np.full(min(hyperparameters, 3), 0.1), *powers]
        values += [0.1] * (hyperparameters - len(values))
        arguments = {
            "table": self._variables[0].handle,
            "slots": [variable.handle for variable in self._variables[1 : 1 + slots]],
            "hyperparameters": [np.array(value, np.float32) for value in values],
            "ids": ids,
            "gradients": [gradients[:first], gradients[first:]],
            "rule": rule,
            "sums": sums,
            "limits": [] if random.integers(2) else LIMITS,
        }
        self._run(self._ops.tpu_columns_resource_update, random, arguments)

    def _row_gradients(self, random: Any) -> None:
        """Looks up the features of two variables, and sums the gradients of their rows."""
        arguments, features = self._lookup_of_tables(random)
        layers, rows = self._ops.tpu_columns_look_up_tables(**arguments)
        feature = int(random.integers(len(features)))
        gradients = {
            "gradient": np.asarray(layers[features[feature]["layer"]]),
            "rows": rows,
            "feature": feature,
            "column": features[feature]["column"],
            "width": WIDTH,
        }
        self._run(self._ops.tpu_columns_row_gradients, random, gradients)

    def _tables(self, random: Any) -> None:
        """Looks up the features of two variables, and updates them."""
        arguments, features = self._lookup_of_tables(random)
        look_up = self._ops.tpu_columns_look_up_tables
        is_good = random.integers(2)
        layers, rows = look_up(**arguments) if is_good else self._run(look_up, random, arguments)
        update = {
            "variables": [variable.handle for variable in self._variables[:2]],
            "slots": [variable.handle for variable in self._variables[2:]],
            "rates": [np.array(0.1, np.float32)] * 2,
            "factor": np.array(1.0, np.float32),
            "step": np.array(3.0, np.float32),
            "gradients": [np.asarray(layers[each["layer"]]) for each in features],
            "rows": rows,
            "feature": list(range(len(features))),
            "variable": [each["variable"] for each in features],
            "column": [each["column"] for each in features],
            "rule": "adagrad_no_nan",
            "constants": [],
            "limits": [] if random.integers(2) else LIMITS,
            "decay_has_rate": bool(random.integers(2)),
        }
        if random.integers(3) == 0:
            update |= {"rule": "sgd", "slots": []}
        elif random.integers(3) == 0:
            update |= {"rule": "momentum", "constants": [0.9, 1.0]}
        self._run(self._ops.tpu_columns_update_tables, random, update)

    def _lookup_of_tables(self, random: Any) -> tuple[Arguments, list[Arguments]]:
        features: list[Arguments] = []
        inputs: dict[str, list[Any]] = {"ids": [], "indices": [], "shapes": [], "weights": []}
        widths = [0, 2]  # the second begins with another tensor's columns
        for _ in range(random.integers(1, 5)):
            layer = int(random.integers(2))
            kind = ("dense", "sparse", "weighted", "steps")[random.integers(4)]
            count = int(random.integers(0, 9))
            if kind == "dense":
                inputs["ids"].append(self._ids(random, [BATCH, int(random.integers(0, 4))]))
            else:
                inputs["ids"].append(self._ids(random, [count]))
                places = [np.sort(random.integers(0, BATCH, count)), random.integers(0, 3, count)]
                inputs["indices"].append(np.stack(places, 1).astype(np.int64))
                inputs["shapes"].append(np.array([BATCH, 3], np.int64))
            if kind == "weighted":
                inputs["weights"].append(random.normal(size=count).astype(np.float32))
            features.append(
                {
                    "variable": int(random.integers(2)),
                    "first_row": 0,
                    "num_rows": ROWS,
                    "num_shards": int(random.integers(1, 4)),
                    "safe": int(kind != "steps" and random.integers(2)),
                    "column_name": "'a'",
                    "key": "'b'",
                    "weight_key": "''",
                    "combiner": int(random.integers(3)),
                    # One step: as many sums as the other features of the layer have.
                    "num_steps": int(kind == "steps"),
                    "sparse": int(kind != "dense"),
                    "weighted": int(kind == "weighted"),
                    "layer": layer,
                    "column": widths[layer],
                }
            )
            widths[layer] += WIDTH
        arguments: Arguments = {
            "variables": [variable.handle for variable in self._variables[:2]],
            "tables": [],
            "others": [np.ones([BATCH, 2], np.float32)],
            **inputs,
            "trains": bool(random.integers(2)),
            "widths": widths,
            "num_layers": 2,
            "layer_of_other": [1],
            "column_of_other": [0],
            "width_of_other": [2],
        }
        if random.integers(3) == 0:
            arguments |= {"variables": [], "tables": [v.numpy() for v in self._variables[:2]]}
        arguments |= {name: [each[name] for each in features] for name in features[0]}
        # A layer without features has no number of rows.
        arguments["others"] += [np.ones([BATCH, 0], np.float32)]
        arguments["layer_of_other"] += [0]
        arguments["column_of_other"] += [0]
        arguments["width_of_other"] += [0]
        return arguments, features


def run(seeds: range, log: Any = None) -> collections.Counter[str]:
    """Makes a call for each seed; returns how many of each kind were computed or refused."""
    calls = Calls(loading.load())
    for seed in seeds:
        if log is not None:
            log.write(f"{seed}\n")
            log.flush()
        calls.call(seed)
    return calls.outcomes


if __name__ == "__main__":
    print(run(range(int(sys.argv[1])), sys.stderr))
