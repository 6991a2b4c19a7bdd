# SPDX-License-Identifier: Apache-2.0
"""Optimizers with the rules of TensorFlow's, and their learning rates.

A sparse gradient, of a table, changes the rows that a step looked up; `Adam` and `Keras2RMSprop`
change the others, too, as theirs do. Slots have the names that the report has.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

import layers
import tensors

FilePath = str | os.PathLike[str]
Rate = float | Callable[[int], float]


class RowOptimizer(torch.optim.Optimizer):
    """Optimizer of TensorFlow's rule for each variable, on the rows of sparse gradients.

    Args:
        parameters: what it trains.
        learning_rate: a number, or a function of the step, which is 0 before the first one.
        clipvalue: largest absolute value of a gradient's elements.
        clipnorm: largest norm of each gradient.
        global_clipnorm: largest norm of all gradients together.
        **options: numbers of the rule that aren't the defaults.

    Attributes:
        step_number: number of steps so far, those of the estimator among them.
    """

    numbers: ClassVar[Mapping[str, float]] = {}
    """Numbers of the rule, with their defaults."""
    slots: ClassVar[Mapping[str, str | float]] = {}
    """Initial values of a variable's slots, or the name of the number that is it."""
    changes_all_rows = False

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        learning_rate: Rate,
        clipvalue: float | None = None,
        clipnorm: float | None = None,
        global_clipnorm: float | None = None,
        **options: Any,
    ) -> None:
        if unknown := sorted(options.keys() - self.numbers):
            known = ", ".join(self.numbers) or "none"
            raise TypeError(f"{type(self).__name__} has no {unknown[0]!r}; its numbers: {known}.")
        # As in TensorFlow, scalars are float32 numbers.
        self.options = {
            name: value if isinstance(value, bool) else np.float32(value)
            for name, value in {**self.numbers, **options}.items()
        }
        self.learning_rate = learning_rate
        self.clipping = (clipvalue, clipnorm, global_clipnorm)
        self.step_number = 0
        self.numbers_at: dict[torch.Tensor, torch.Tensor] = {}
        super().__init__([each for each in parameters if each.requires_grad], {})
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter].update(self.initial_slots(parameter))

    def initial_slots(self, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns the slots of a variable before its first step."""
        return {
            name: torch.full_like(
                parameter,
                float(self.options[value] if isinstance(value, str) else value),
                requires_grad=False,
            )
            for name, value in self.slots.items()
            if self.has_slot(name)
        }

    def has_slot(self, name: str) -> bool:
        """Returns whether the options need a slot."""
        return True

    def rate(self) -> np.float32:
        """Returns the learning rate of the next step."""
        rate = self.learning_rate
        return np.float32(rate(self.step_number) if callable(rate) else rate)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Updates the variables by their gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        found = [each for group in self.param_groups for each in group["params"]]
        found = [each for each in found if each.grad is not None]
        gradients = clipped([each.grad for each in found], *self.clipping)
        for parameter, gradient in zip(found, gradients, strict=True):
            if not gradient.is_sparse:
                self.update(parameter, gradient, self.state[parameter])
            elif self.changes_all_rows:
                self.update(parameter, gradient.to_dense(), self.state[parameter])
            else:
                self.update_rows(parameter, *self.sum_rows(parameter, gradient))
        self.step_number += 1
        return loss

    def sum_rows(
        self, tables: torch.Tensor, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the rows of a sparse gradient, each once, and the sums of their entries."""
        rows, values = gradient._indices()[0], gradient._values()
        # This takes a fourth of the time of sorting: each entry writes its number at its row, and
        # the one that is there afterwards stands for the row.
        if tables not in self.numbers_at:
            self.numbers_at[tables] = rows.new_zeros(len(tables), dtype=torch.int32)
        numbers = torch.arange(len(rows), dtype=torch.int32, device=rows.device)
        first = self.numbers_at[tables].index_copy_(0, rows, numbers).index_select(0, rows)
        chosen = first == numbers
        order = (chosen.cumsum(0) - 1).index_select(0, first)
        rows = rows[chosen]
        return rows, values.new_zeros(len(rows), *values.shape[1:]).index_add_(0, order, values)

    def update_rows(self, tables: torch.Tensor, rows: torch.Tensor, gradient: torch.Tensor) -> None:
        """Changes rows of a parameter, and of its slots."""
        whole = {"": tables, **self.state[tables]}
        parts = {name: each.index_select(0, rows) for name, each in whole.items()}
        slots = {name: each for name, each in parts.items() if name}
        self.update(parts[""], gradient, slots)
        for name, each in whole.items():
            each.index_copy_(0, rows, parts[name])

    def update(
        self, variable: torch.Tensor, gradient: torch.Tensor, slots: Mapping[str, torch.Tensor]
    ) -> None:
        """Changes a variable, or rows of it, and the slots in place."""
        raise NotImplementedError


class SGD(RowOptimizer):
    """Gradient descent, with momentum or without."""

    numbers: ClassVar = {"momentum": 0.0, "nesterov": False}
    slots: ClassVar = {"momentum": 0.0}

    def has_slot(self, name: str) -> bool:
        """Returns whether there is momentum."""
        return bool(self.options["momentum"])

    def update(self, variable: Any, gradient: Any, slots: Any) -> None:
        """Changes a variable and its velocity."""
        change = gradient * -float(self.rate())
        if slots:
            momentum = float(self.options["momentum"])
            velocity = slots["momentum"].mul_(momentum).add_(change)
            change = velocity * momentum + change if self.options["nesterov"] else velocity
        variable.add_(change)


class Adagrad(RowOptimizer):
    """Adagrad, which divides by the root of the sum of squared gradients."""

    numbers: ClassVar = {"initial_accumulator_value": 0.1, "epsilon": 1e-7}
    slots: ClassVar = {"accumulator": "initial_accumulator_value"}

    def update(self, variable: Any, gradient: Any, slots: Any) -> None:
        """Changes a variable and its sum of squares."""
        root = slots["accumulator"].addcmul_(gradient, gradient).sqrt()
        root.add_(float(self.options["epsilon"]))
        variable.addcdiv_(gradient, root, value=-float(self.rate()))


class Adadelta(RowOptimizer):
    """Adadelta, whose steps have the size of the steps before."""

    numbers: ClassVar = {"rho": 0.95, "epsilon": 1e-7}
    slots: ClassVar = {"accumulated_grad": 0.0, "accumulated_delta_var": 0.0}

    def update(self, variable: Any, gradient: Any, slots: Any) -> None:
        """Changes a variable and both means."""
        rho, epsilon = self.options["rho"], float(self.options["epsilon"])
        new = float(1 - rho)
        squares = slots["accumulated_grad"].mul_(float(rho)).add_(gradient.square() * new)
        changes = slots["accumulated_delta_var"]
        change = (changes + epsilon).sqrt() * (squares + epsilon).rsqrt() * gradient
        changes.mul_(float(rho)).add_(change.square() * new)
        variable.sub_(change * float(self.rate()))


class Adam(RowOptimizer):
    """Adam, whose means decay in all rows of a table."""

    numbers: ClassVar = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "amsgrad": False}
    slots: ClassVar = {"momentum": 0.0, "velocity": 0.0, "velocity_hat": 0.0}
    changes_all_rows = True

    def has_slot(self, name: str) -> bool:
        """Returns whether it is a mean, or the largest one is kept."""
        return name != "velocity_hat" or bool(self.options["amsgrad"])

    def update(self, variable: Any, gradient: Any, slots: Any) -> None:
        """Changes a variable and its means."""
        first, second = self.options["beta_1"], self.options["beta_2"]
        number = np.float32(self.step_number + 1)
        rate = self.rate() * np.sqrt(1 - second**number) / (1 - first**number)
        mean, square = slots["momentum"], slots["velocity"]
        mean.add_((gradient - mean) * float(1 - first))
        square.add_((gradient.square() - square) * float(1 - second))
        if self.options["amsgrad"]:
            square = torch.maximum(slots["velocity_hat"], square, out=slots["velocity_hat"])
        variable.sub_(mean * float(rate) / (square.sqrt() + float(self.options["epsilon"])))


class EmbeddingAdam(RowOptimizer):
    """Adam of TPU embeddings: without a correction of the bias, of the rows looked up if lazy."""

    numbers: ClassVar = {
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 1e-8,
        "lazy": True,
        "sum_inside_sqrt": True,
    }
    slots: ClassVar = {"momentum": 0.0, "velocity": 0.0}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.changes_all_rows = not self.options["lazy"]

    def update(self, variable: Any, gradient: Any, slots: Any) -> None:
        """Changes a variable and its means."""
        first, second = self.options["beta_1"], self.options["beta_2"]
        epsilon = self.options["epsilon"]
        mean, square = slots["momentum"], slots["velocity"]
        mean.mul_(float(first)).add_(gradient * float(1 - first))
        square.mul_(float(second)).add_(gradient.square() * float(1 - second))
        if self.options["sum_inside_sqrt"]:
            root = (square + float(epsilon * epsilon)).sqrt()
        else:
            root = square.sqrt() + float(epsilon)
        variable.sub_(mean * float(self.rate()) / root)


class Adamax(RowOptimizer):
    """Adamax, which divides by the largest gradient."""

    numbers: ClassVar = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}
    slots: ClassVar = {"momentum": 0.0, "norm": 0.0}

    def update(self, variable: Any, gradient: Any, slots: Any) -> None:
        """Changes a variable, its mean and its largest gradient."""
        first, second = self.options["beta_1"], self.options["beta_2"]
        rate = self.rate() / (1 - first ** np.float32(self.step_number + 1))
        mean, norm = slots["momentum"], slots["norm"]
        mean.add_((gradient - mean) * float(1 - first))
        torch.maximum(norm * float(second), gradient.abs(), out=norm)
        variable.sub_(mean * float(rate) / (norm + float(self.options["epsilon"])))


class Ftrl(RowOptimizer):
    """FTRL-proximal, whose regularization makes weights zero."""

    numbers: ClassVar = {
        "learning_rate_power": -0.5,
        "initial_accumulator_value": 0.1,
        "l1_regularization_strength": 0.0,
        "l2_regularization_strength": 0.0,
        "l2_shrinkage_regularization_strength": 0.0,
        "beta": 0.0,
    }
    slots: ClassVar = {"accumulator": "initial_accumulator_value", "linear": 0.0}

    def update(self, variable: Any, gradient: Any, slots: Any) -> None:
        """Changes a variable, its sum of squares and its linear term."""
        options, rate = self.options, self.rate()
        power = -float(options["learning_rate_power"])
        l1 = float(options["l1_regularization_strength"])
        shrinkage = float(2 * options["l2_shrinkage_regularization_strength"])
        l2 = options["l2_regularization_strength"] + options["beta"] / (2 * rate)
        sums, linear = slots["accumulator"], slots["linear"]
        old = sums.pow(power)
        new = sums.add_(gradient.square()).pow(power)
        shrunk = gradient + variable * shrinkage if shrinkage else gradient
        linear.add_(shrunk - (new - old) / float(rate) * variable)
        quadratic = new / float(rate) + float(2 * l2)
        variable.copy_((linear.clamp(-l1, l1) - linear) / quadratic)


class RMSprop(RowOptimizer):
    """RMSProp, which adds epsilon to the mean of squared gradients."""

    numbers: ClassVar = {"rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False}
    slots: ClassVar = {"velocity": 0.0, "average_gradient": 0.0, "momentum": 0.0}

    def has_slot(self, name: str) -> bool:
        """Returns whether it is the mean of squares, or the options need it."""
        needed = {"average_gradient": "centered", "momentum": "momentum"}.get(name)
        return needed is None or bool(self.options[needed])

    def update(self, variable: Any, gradient: Any, slots: Any) -> None:
        """Changes a variable and its means."""
        spread = self.spread(gradient, slots) + float(self.options["epsilon"])
        change = gradient * float(self.rate()) * spread.rsqrt()
        if "momentum" in slots:
            change = slots["momentum"].mul_(float(self.options["momentum"])).add_(change)
        variable.sub_(change)

    def spread(self, gradient: Any, slots: Any) -> Any:
        """Returns the mean of squares, or the variance if it is centered; updates the means."""
        new = float(1 - self.options["rho"])
        squares = slots["velocity"]
        squares.add_((gradient.square() - squares) * new)
        if not self.options["centered"]:
            return squares
        mean = slots["average_gradient"]
        mean.add_((gradient - mean) * new)
        return squares - mean.square()


class Keras2RMSprop(RMSprop):
    """RMSprop without momentum of Keras 2, which adds epsilon to the root."""

    changes_all_rows = True

    def update(self, variable: Any, gradient: Any, slots: Any) -> None:
        """Changes a variable and its means."""
        root = self.spread(gradient, slots).sqrt() + float(self.options["epsilon"])
        variable.sub_(gradient * float(self.rate()) / root)


def clipped(
    gradients: Sequence[Any],
    value: float | None,
    norm: float | None,
    global_norm: float | None,
) -> list[Any]:
    """Returns clipped gradients; of sparse ones, the entries of each lookup are clipped."""
    if value is not None:
        return [with_entries(each, entries(each).clamp(-value, value)) for each in gradients]
    if norm is not None:
        largest = norm
        return [
            with_entries(each, entries(each) * largest / entries(each).norm().clamp_min(largest))
            for each in gradients
        ]
    if global_norm is not None and gradients:
        total = torch.stack([entries(each).norm() for each in gradients]).norm()
        factor = global_norm / total.clamp_min(global_norm)
        return [with_entries(each, entries(each) * factor) for each in gradients]
    return list(gradients)


def entries(gradient: torch.Tensor) -> torch.Tensor:
    """Returns the elements of a gradient: of a sparse one its rows, with those that repeat."""
    return gradient._values() if gradient.is_sparse else gradient


def with_entries(gradient: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Returns a gradient with other elements."""
    if not gradient.is_sparse:
        return values
    indices = gradient._indices()
    return torch.sparse_coo_tensor(indices, values, gradient.shape, check_invariants=False)


def parameters_of(model: nn.Module, names: Iterable[str]) -> list[nn.Parameter]:
    """Returns the parameters of some layers of a model."""
    return [each for name in names for each in model.get_submodule(name).parameters()]


def rsqrt(value: Any) -> Any:
    """Returns the reciprocal of a square root."""
    return 1 / np.sqrt(value)


def exponential_decay(
    rate: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Rate:
    """Returns a rate that is multiplied by a factor in each number of steps."""

    def of_step(step: int) -> float:
        part = step / decay_steps
        return rate * decay_rate ** (math.floor(part) if staircase else part)

    return of_step


def inverse_time_decay(
    rate: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Rate:
    """Returns a rate that is divided by a linear function of the step."""

    def of_step(step: int) -> float:
        part = step / decay_steps
        return rate / (1.0 + decay_rate * (math.floor(part) if staircase else part))

    return of_step


def piecewise_constant_decay(boundaries: Sequence[float], values: Sequence[float]) -> Rate:
    """Returns a rate that has another value after each boundary."""
    return lambda step: values[sum(step > boundary for boundary in boundaries)]


def polynomial_decay(
    rate: float,
    decay_steps: float,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Rate:
    """Returns a rate that falls to its end by a power of the steps that are left."""

    def of_step(step: int) -> float:
        steps = decay_steps * max(1, math.ceil(step / decay_steps)) if cycle else decay_steps
        left = 1.0 - min(step, steps) / steps
        return (rate - end_learning_rate) * left**power + end_learning_rate

    return of_step


def cosine_decay(
    rate: float,
    decay_steps: float,
    alpha: float = 0.0,
    warmup_target: float | None = None,
    warmup_steps: float = 0,
) -> Rate:
    """Returns a rate that falls by a cosine, after a linear rise if there is a target."""

    def of_step(step: int) -> float:
        if warmup_target is not None and step < warmup_steps:
            return rate + (warmup_target - rate) * step / warmup_steps
        first = rate if warmup_target is None else warmup_target
        part = min(step - (0 if warmup_target is None else warmup_steps), decay_steps)
        cosine = 0.5 * (1.0 + math.cos(math.pi * part / decay_steps))
        return first * ((1.0 - alpha) * cosine + alpha)

    return of_step


def cosine_decay_restarts(
    rate: float,
    first_decay_steps: float,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
) -> Rate:
    """Returns a rate that falls by cosines, each longer by `t_mul` and lower by `m_mul`."""

    def of_step(step: int) -> float:
        part, restarts = step / first_decay_steps, 0
        if t_mul == 1.0:
            restarts, part = math.floor(part), part - math.floor(part)
        else:
            restarts = math.floor(math.log(1.0 - part * (1.0 - t_mul)) / math.log(t_mul))
            before = (1.0 - t_mul**restarts) / (1.0 - t_mul)
            part = (part - before) / t_mul**restarts
        cosine = 0.5 * m_mul**restarts * (1.0 + math.cos(math.pi * part))
        return rate * ((1.0 - alpha) * cosine + alpha)

    return of_step


def save(
    path: str | os.PathLike[str], model: nn.Module, optimizers: Sequence[RowOptimizer]
) -> None:
    """Writes the slots of optimizers by the names of the model's parameters, and the step."""
    found: dict[str, np.ndarray] = {"step": np.array(max(each.step_number for each in optimizers))}
    for name, values in slots_of(model, optimizers):
        found[name] = values.cpu().numpy()
    tensors.write(path, found)


def load(
    path: str | os.PathLike[str], model: nn.Module, optimizers: Sequence[RowOptimizer]
) -> None:
    """Reads what `save` wrote; slots that aren't there keep their initial values."""
    found = tensors.read(path)
    for optimizer in optimizers:
        optimizer.step_number = int(found["step"])
    for name, values in slots_of(model, optimizers):
        if name in found:
            values.copy_(torch.from_numpy(found[name]))


def slots_of(
    model: nn.Module, optimizers: Sequence[RowOptimizer]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the slots of the model's variables and their names."""
    for variable, parameter, rows in layers.variables_of(model):
        for optimizer in optimizers:
            for slot, values in optimizer.state.get(parameter, {}).items():
                yield f"{variable}/{slot}", values[rows]
