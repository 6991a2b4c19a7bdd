# SPDX-License-Identifier: Apache-2.0
"""Computes steps of Google's SparseCore update rules for random rows and hyperparameters.

    python sparse_core_rules.py OUT.npz SEED

It needs jax-tpu-embedding, and no TPU: the library lowers each update to a StableHLO function for
the SparseCore, which StableHLO's reference interpreter evaluates here. The arrays are those of
`tests/data/tpu_rules/rules.npz` whose names begin with `random/`.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

ROWS, WIDTH, STEPS = 64, 4, 3
PRIMITIVES = "jax_tpu_embedding.sparsecore.lib.core.primitives.sparse_dense_matmul_grad_with_"


def log_uniform(low: float, high: float) -> Any:
    """Returns a function of a generator that draws a value for each row."""
    return lambda rng: np.exp(rng.uniform(np.log(low), np.log(high), ROWS))


def uniform(low: float, high: float) -> Any:
    """Returns a function of a generator that draws a value for each row."""
    return lambda rng: rng.uniform(low, high, ROWS)


_RATE = log_uniform(1e-4, 10)
_OF_MOMENTUM = {
    "learning_rate": _RATE,
    "momentum": uniform(0, 1),
    "beta2": uniform(0.5, 1),
    "epsilon": log_uniform(1e-10, 0.1),
    "exponent": uniform(1, 5),
}
_OF_FTRL = {
    "learning_rate": log_uniform(1e-3, 3),
    "learning_rate_power": uniform(-1, 0),
    "l1_regularization_strength": uniform(0, 1),
    "l2_regularization_strength": uniform(0, 1),
    "beta": uniform(0, 1),
}
# Kind: the library's rule, its slots with whether they are positive, its hyperparameters in the
# order of the function's arguments, and constants of the lowering.
RULES: dict[str, tuple[str, dict[str, bool], dict[str, Any], dict[str, Any]]] = {
    "sgd": ("sgd", {}, {"learning_rate": _RATE}, {}),
    "adagrad": ("adagrad", {"accumulator": True}, {"learning_rate": _RATE}, {}),
    "adagrad_momentum_plain": (
        "adagrad_momentum",
        {"accumulator": True, "momentum": False},
        _OF_MOMENTUM,
        {"use_nesterov": False},
    ),
    "adagrad_momentum_nesterov": (
        "adagrad_momentum",
        {"accumulator": True, "momentum": False},
        _OF_MOMENTUM,
        {"use_nesterov": True},
    ),
    "adam": (
        "adam",
        {"momentum": False, "velocity": True},
        {
            "alpha_t": log_uniform(1e-4, 1),
            "beta_1": uniform(0, 1),
            "beta_2": uniform(0.8, 1),
            "epsilon_hat": log_uniform(1e-8, 1e-2),
        },
        {},
    ),
    "ftrl": (
        "ftrl",
        {"accumulator": True, "linear": False},
        _OF_FTRL,
        {"multiply_linear_by_learning_rate": False},
    ),
    "ftrl_multiply": (
        "ftrl",
        {"accumulator": True, "linear": False},
        _OF_FTRL,
        {"multiply_linear_by_learning_rate": True},
    ),
}


def update_function(rule: str, slots: int, hyper: int, constants: dict[str, Any]) -> str:
    """Returns the module of the function that the library gives to the SparseCore, as text.

    All rows are one: the function works by element, and has a value of each hyperparameter for each
    element of a row.
    """
    module = importlib.import_module(PRIMITIVES + rule)
    primitive = getattr(module, f"tpu_sparse_dense_matmul_grad_with_{rule}_primitive")
    nesterov = {k: v for k, v in constants.items() if k == "use_nesterov"}
    static = {k: v for k, v in constants.items() if k not in nesterov}

    def step(*arguments: Any) -> Any:
        return primitive.bind(
            *arguments,
            *(np.bool_(value) for value in nesterov.values()),
            max_ids_per_partition=16,
            max_unique_ids_per_partition=16,
            computation_name="update",
            sharding_strategy=1,
            enable_minibatching=False,
            **static,
        )

    def shape(dtype: Any, *sizes: int) -> Any:
        return jax.ShapeDtypeStruct(sizes, dtype)

    table = shape(np.float32, 16, ROWS * WIDTH)
    ids = [shape(np.int32, 16)] * 3
    entries = [*ids, shape(np.float32, 16), shape(np.int32)]
    numbers = [shape(np.float32)] * hyper
    text = jax.jit(step).lower(*entries, *[table] * (2 + slots), *numbers).as_text()
    (function,) = re.findall(r"func\.func private @update\(.*?\n  }\n", text, re.DOTALL)
    # The interpreter has no tuples.
    function = re.sub(r"tuple<(tensor.*?>)>", r"(\1)", function.replace("private @update", "@main"))
    flag = re.search(r", (%arg\d+): (tensor<\w+xi1>)\)", function)
    if flag is not None:
        value = str(bool(constants["use_nesterov"])).lower()
        constant = f" {{\n    {flag[1]} = stablehlo.constant dense<{value}> : {flag[2]}\n"
        function = function.replace(flag[0], ")").replace(" {\n", constant, 1)
    packed = re.search(r"(%\d+) = stablehlo\.tuple (.*?) : \((.*)\)\n", function)
    if packed is not None:
        function = function.replace(packed[0], "\n")
        function = re.sub(
            rf"return {packed[1]} : .*", f"return {packed[2]} : {packed[3]}", function
        )
    return f"module {{\n{function}}}"


def steps(kind: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Returns hyperparameters, gradients and states of three steps of all rows."""
    rule, slots, hyper, constants = RULES[kind]
    values = {name: draw(rng).astype(np.float32) for name, draw in hyper.items()}
    shape = (ROWS, WIDTH)
    gradients = rng.normal(size=(STEPS, *shape)) * np.exp(rng.uniform(-12, 7, (STEPS, *shape)))
    gradients = np.where(rng.random(gradients.shape) < 0.1, 0, gradients).astype(np.float32)
    state = [rng.normal(size=shape) * 3]
    state += [
        np.exp(rng.uniform(-5, 6, shape)) if positive else rng.normal(size=shape)
        for positive in slots.values()
    ]
    states = [np.array(state, np.float32)]
    by_element = [np.repeat(value, WIDTH) for value in values.values()]
    with mlir.make_ir_context():
        module = ir.Module.parse(update_function(rule, len(slots), len(hyper), constants))
        for gradient in gradients:
            inputs = [gradient, *states[-1], *by_element]
            attributes = [
                ir.DenseElementsAttr.get(np.ascontiguousarray(each, np.float32).reshape(1, -1))
                for each in inputs
            ]
            found = stablehlo.eval_module(module, attributes)
            states.append(np.array([np.array(each).reshape(shape) for each in found], np.float32))
    return {
        "hyper": np.array([values[name] for name in sorted(values)]),
        "gradients": gradients,
        "states": np.array(states),
    }


def main(out: str, seed: str) -> None:
    """Writes the arrays of all rules."""
    rng = np.random.default_rng(int(seed))
    arrays = {kind: steps(kind, rng) for kind in RULES}
    named = {f"random/{k}/{n}": value for k, each in arrays.items() for n, value in each.items()}
    np.savez_compressed(out, **named)


if __name__ == "__main__":
    main(*sys.argv[1:])
