# SPDX-License-Identifier: Apache-2.0
"""Uses a program of plain PyTorch: it trains on, is written and read again, serves, is exported."""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COMBINERS = ("sum", "mean", "sqrtn")
SHAPES = ((5, 1), (5, 4), (5, 0), (0, 2), (3, 2, 4))
REGULARIZED = {
    "l1_regularization_strength": 0.01,
    "l2_regularization_strength": 0.1,
    "l2_shrinkage_regularization_strength": 0.1,
}
OPTIONS = ({}, {"momentum": 0.5, "nesterov": True}, {"centered": True}, REGULARIZED)


def use(load: Callable[[Path], Any], directory: Path) -> None:
    """Uses the program of a directory; `load` imports its check.py."""
    check = load(directory)
    values = check.recorded.CheckValues(check.recorded.HERE / "check.npz")
    numbers = values.contents["training"]["batches"][:4]
    check_module_names()
    for test in (check_gradients, check_ids, check_state):
        test(check.columns.layers)
    check_updates(check.columns.optimizers)
    with tempfile.TemporaryDirectory() as folder:
        train_write_and_read(check, values, numbers, Path(folder))
        export(directory, Path(folder) / "model.onnx")


def check_module_names() -> None:
    """No layer has a name that modules have already."""
    from torch import nn

    source = Path(__file__).parents[2] / "estimator_spec/convert/torch_columns/translation.py"
    text = source.read_text("utf-8")
    own = {name for name in dir(nn.Module()) if not name.startswith("_")}
    missing = [name for name in own if f'"{name}"' not in text]
    assert not missing, f"{source.name} lacks {missing}"


def check_gradients(layers: Any) -> None:
    """Lookups and their gradients are those of plain operations, for any number of ids."""
    import torch
    from torch.nn import functional

    torch.manual_seed(0)
    lookups: list[Any] = []
    for (number, combiner), shape in itertools.product(enumerate(COMBINERS), SHAPES):
        ids, weights = torch.randint(0, 9, shape), torch.rand(shape)
        weights *= torch.rand(shape) > 0.3
        if shape[-1] == 4:
            weights[0] = torch.tensor([1.0, -1.0, 0.5, -0.5])  # their sum is 0
        lookups += [(number, combiner, ids, weights)] * 2  # columns share the table
    given = {str(n): (combiner, *each) for n, (_, combiner, *each) in enumerate(lookups)}
    for unique in (False, True):
        tables = {combiner: (9, combiner) for combiner in COMBINERS}
        module = layers.Tables(3, tables, unique=unique)
        torch.nn.init.normal_(module.weight)
        table = module.weight.detach().clone().requires_grad_()
        expected = []
        for number, combiner, ids, weights in lookups:
            total = (functional.embedding(ids + 9 * number, table) * weights.unsqueeze(-1)).sum(-2)
            powers = weights if combiner == "mean" else weights.square()
            divisor = powers.sum(-1, keepdim=True).pow(1.0 if combiner == "mean" else 0.5)
            is_zero = divisor == 0.0
            mean = torch.where(is_zero, 0.0, total / torch.where(is_zero, 1.0, divisor))
            expected.append(total if combiner == "sum" else mean)
        torch.testing.assert_close([*module.eval()(given).values()], expected)
        found = [*module.train()(given).values()]
        torch.testing.assert_close(found, expected)
        factors = [torch.rand(each.shape) for each in expected]
        for results in (found, expected):
            pairs = zip(results, factors, strict=True)
            sum((each * factor).sum() for each, factor in pairs).backward()
        torch.testing.assert_close(module.weight.grad.to_dense(), table.grad)
        sizes = (len(ids.unique()) if unique else ids.numel() for _, _, ids, _ in lookups)
        assert len(module.weight.grad._values()) == sum(sizes)


def check_ids(layers: Any) -> None:
    """An id outside of its table is an error: in one parameter, it would be another table's."""
    import torch

    module = layers.Tables(1, {"first": (9, "sum"), "second": (4, "sum")})
    for mode, wrong in itertools.product((True, False), (-1, 9)):
        lookups = {
            name: (name, torch.tensor([[3], [value]]), torch.ones(2, 1))
            for name, value in (("second", 2), ("first", wrong))
        }
        error = error_of(lambda: module.train(mode)(lookups))  # noqa: B023
        assert isinstance(error, IndexError)
        assert not mode or str(error) == f"Table 'first': the id {wrong} is outside of [0, 9)."


def check_state(layers: Any) -> None:
    """The state has an entry for each table; one that is missing or has another shape is named."""
    import torch

    module = torch.nn.ModuleDict({"tables": layers.Tables(2, {"a": (3, "sum"), "b": (1, "sum")})})
    given = {"tables.a": torch.ones(3, 2), "tables.b": torch.full((1, 2), 2.0)}
    module.load_state_dict(given)
    assert module.state_dict().keys() == given.keys()
    assert module["tables"].weight.tolist() == [[1.0, 1.0]] * 3 + [[2.0, 2.0]]
    bad = (
        ({"tables.a": given["tables.a"]}, 'Missing key(s) in state_dict: "tables.b"'),
        ({**given, "tables.c": given["tables.b"]}, 'Unexpected key(s) in state_dict: "tables.c"'),
        ({**given, "tables.b": given["tables.a"]}, "tables.b have the shape [3, 2], the table has"),
    )
    for state, text in bad:
        assert text in str(error_of(lambda: module.load_state_dict(state)))  # noqa: B023


def error_of(call: Callable[[], Any]) -> Exception | None:
    """Returns the error of a call, or None."""
    try:
        call()
    except (IndexError, RuntimeError) as error:
        return error
    return None


def check_updates(optimizers: Any) -> None:
    """Rows of several tables, which are updated at once, change as a variable of them does."""
    import torch

    torch.manual_seed(0)
    rows = [
        torch.tensor([1, 4, 5]),
        torch.tensor([3, 3, 7]),
        torch.tensor([], dtype=torch.int64),
    ]
    kinds = [kind for kind in vars(optimizers).values() if getattr(kind, "slots", None)]
    assert len(kinds) == 9
    for kind, options in itertools.product(kinds, OPTIONS):
        if not options.keys() - kind.numbers:
            tables = [torch.nn.Parameter(torch.randn(8, width)) for width in (1, 4, 4)]
            single = [torch.nn.Parameter(each.detach().clone()) for each in tables]
            together = kind(tables, 0.1, **options)
            alone = [kind([each], 0.1, **options) for each in single]
            for _ in range(3):
                for table, other, chosen in zip(tables, single, rows, strict=True):
                    values = torch.randn(len(chosen), table.shape[1])
                    table.grad = torch.sparse_coo_tensor(chosen[None], values, table.shape)
                    other.grad = table.grad.to_dense()
                before = [each.detach().clone() for each in single]
                for rule in (together, *alone):
                    rule.step()
                if not together.changes_all_rows:
                    for other, old, chosen in zip(single, before, rows, strict=True):
                        left = [n for n in range(8) if n not in chosen]
                        other.data[left] = old[left]
            torch.testing.assert_close(tables, single, rtol=1e-6, atol=1e-7, msg=str(kind))


def train_write_and_read(check: Any, values: Any, numbers: list[int], folder: Path) -> None:
    """Trains four steps in one go, and two and two with files between them."""
    steps, columns = check.steps, check.columns
    given = [steps.as_tensors(check.reading.training_batch(*values.batches[n])) for n in numbers]
    model = columns.load_model()
    rules = columns.load_optimizers(model)
    whole = [steps.train_step(model.train(), rules, each).item() for each in given]
    model = columns.load_model()
    rules = columns.load_optimizers(model)
    parts = [steps.train_step(model.train(), rules, each).item() for each in given[:2]]
    state = {key: value.numpy() for key, value in model.state_dict().items()}
    columns.tensors.write(folder / "weights.safetensors", state)
    columns.optimizers.save(folder / "optimizer.safetensors", model, rules)
    columns.WEIGHTS, columns.SLOTS = (
        folder / "weights.safetensors",
        folder / "optimizer.safetensors",
    )
    model = columns.load_model()
    rules = columns.load_optimizers(model)
    parts += [steps.train_step(model.train(), rules, each).item() for each in given[2:]]
    np.testing.assert_array_equal(whole, parts)


def export(directory: Path, path: Path) -> None:
    """Exports to ONNX, which serve.py compares in onnxruntime."""
    if importlib.util.find_spec("onnxscript") is None:
        print("onnxscript isn't installed: the export wasn't tried")
        return
    command = [sys.executable, "-B", str(directory / "serve.py"), "--export", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "equal in onnxruntime" in done.stdout, done.stderr[-3000:]
