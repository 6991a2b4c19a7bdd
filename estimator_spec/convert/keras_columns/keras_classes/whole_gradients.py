# SPDX-License-Identifier: Apache-2.0
"""Bases of optimizers in programs without TensorFlow, as those of `row_gradients`.

Gradients of tables have all rows on JAX and torch; rows that a step doesn't look up have zeros.
"""

from __future__ import annotations

from typing import Any

import keras


def whole(gradient: Any) -> Any:
    """Returns a gradient with all rows: on TensorFlow's backend there are others."""
    if not hasattr(gradient, "dense_shape"):
        return gradient
    rows = gradient.dense_shape[0]
    return keras.ops.segment_sum(gradient.values, gradient.indices, rows)


class RowsSummed:
    """Takes gradients as JAX and torch have them: one sum for each row of a table."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Updates variables by gradients."""
        super().apply([whole(each) for each in grads], trainable_variables)  # type: ignore[misc]


class RowsLookedUp(RowsSummed):
    """Updates the rows of tables whose gradient isn't 0, and no others."""

    slots: tuple[str, ...] = ()  # attributes with the slots of all variables

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates a variable and its slots."""
        ops, number = keras.ops, self._get_variable_index(variable)  # type: ignore[attr-defined]
        lists = [getattr(self, name) for name in self.slots]
        changed = [variables[number] for variables in lists if variables]
        # TensorFlow's variables, which the optimizer gets on its backend, have a number.
        is_table = variable.name.partition(":")[0].endswith("embeddings")
        if not changed or not is_table:
            super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
            return
        changed.append(variable)
        before = [ops.copy(ops.convert_to_tensor(each)) for each in changed]
        super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
        rows = ops.any(ops.not_equal(gradient, 0), axis=-1, keepdims=True)
        for each, old in zip(changed, before, strict=True):
            new = ops.where(rows, ops.convert_to_tensor(each), old)
            self.assign(each, new)  # type: ignore[attr-defined]
