# SPDX-License-Identifier: Apache-2.0
"""Reimplements optimizers of `tensorflow.contrib.opt`.

They are lazy Adam, Nadam, LARS, weight decay, and moving averages of variables.

Slot variables have the names that TensorFlow 1.15 gave them, so its checkpoints continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private

tf1 = tf.compat.v1


class _Adam(tf1.train.AdamOptimizer):
    """Base of the variants of Adam."""

    def _factors(self, grad: Any) -> tuple[Any, Any, Any, Any]:
        """Returns learning rate with bias correction, beta1, beta2 and epsilon as `grad`'s type."""
        values = (self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)
        rate, beta1, beta2, epsilon = (_cast(value, grad) for value in values)
        powers = (_cast(power, grad) for power in self._get_beta_accumulators())
        beta1_power, beta2_power = powers
        return rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power), beta1, beta2, epsilon


class LazyAdamOptimizer(_Adam):
    """Adam that changes a row, and its moments, only in steps that look it up.

    `AdamOptimizer` moves all rows of a table in each step.
    """

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any, scatter_add: Any) -> Any:
        del scatter_add
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        rate, beta1, beta2, epsilon = self._factors(grad)
        means = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        squares = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        change = rate * means / (tf.sqrt(squares) + epsilon)
        return tf.group(
            tf1.scatter_update(m, indices, means, use_locking=self._use_locking),
            tf1.scatter_update(v, indices, squares, use_locking=self._use_locking),
            tf1.scatter_sub(var, indices, change, use_locking=self._use_locking),
        )


class NadamOptimizer(_Adam):
    """Adam with Nesterov's momentum, as Dozat describes it (2016, without its schedule).

    Of a table all moments decay in each step, and the rows that a step looks up move.
    """

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._move_by_op(tf.raw_ops.ApplyAdam, lambda of: of, grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._move_by_op(tf.raw_ops.ResourceApplyAdam, lambda of: of.handle, grad, var)

    def _move_by_op(self, op: Callable[..., Any], input_of: Any, grad: Any, var: Any) -> Any:
        beta1_power, beta2_power = self._get_beta_accumulators()
        return op(
            var=input_of(var),
            m=input_of(self.get_slot(var, "m")),
            v=input_of(self.get_slot(var, "v")),
            beta1_power=_cast(beta1_power, grad),
            beta2_power=_cast(beta2_power, grad),
            lr=_cast(self._lr_t, grad),
            beta1=_cast(self._beta1_t, grad),
            beta2=_cast(self._beta2_t, grad),
            epsilon=_cast(self._epsilon_t, grad),
            grad=grad,
            use_locking=self._use_locking,
            use_nesterov=True,
        )

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any, scatter_add: Any) -> Any:
        rate, beta1, beta2, epsilon = self._factors(grad)

        def decay(slot: Any, factor: Any, values: Any) -> tuple[Any, Any]:
            """Returns the op that changes a slot, and the new rows that the step looks up."""
            with tf.control_dependencies([slot.assign(slot * factor)]):
                added = scatter_add(slot, indices, values)
            with tf.control_dependencies([added]):
                return added, tf.gather(slot, indices)

        new = (1 - beta1) * grad
        added_means, means = decay(self.get_slot(var, "m"), beta1, new)
        added, squares = decay(self.get_slot(var, "v"), beta2, (1 - beta2) * tf.square(grad))
        change = rate * (new + beta1 * means) / (tf.sqrt(squares) + epsilon)
        return tf.group(added_means, added, scatter_add(var, indices, -change))


class DecoupledWeightDecayExtension:
    """Base of optimizers that shrink variables by a factor before each update.

    The factor doesn't go through the optimizer's moments, as a penalty in the loss does (Loshchilov
    and Hutter, "Decoupled weight decay regularization"). Of a table the rows that a step looks up
    shrink. The class is the first base of an optimizer; `extend_with_decoupled_weight_decay` makes
    one.

    Args:
        weight_decay: the share of a variable that a step takes away: a number, a tensor, or a
            function that returns one.
        *args: arguments of the optimizer.
        **kwargs: more of them.
    """

    def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
        self._decayed: set[int] | None = None
        self._weight_decay = weight_decay
        super().__init__(*args, **kwargs)

    def minimize(self, *args: Any, decay_var_list: Any = None, **kwargs: Any) -> Any:
        """Minimizes a loss; see `tf.compat.v1.train.Optimizer`.

        Args:
            *args: as there.
            decay_var_list: ignored with a warning, as TensorFlow 1.15 ignored it without one: all
                variables that have a gradient shrink.
            **kwargs: as there.
        """
        if decay_var_list is not None:
            tf1.logging.warning(
                "minimize: decay_var_list has no effect, as in TensorFlow 1.15: all variables "
                "shrink. Pass it to apply_gradients for those variables alone."
            )
        return super().minimize(*args, **kwargs)  # type: ignore[misc]  # the other base has it

    def apply_gradients(
        self, grads_and_vars: Any, *args: Any, decay_var_list: Any = None, **kwargs: Any
    ) -> Any:
        """Applies gradients; see `tf.compat.v1.train.Optimizer`.

        Args:
            grads_and_vars: as there.
            *args: as there.
            decay_var_list: variables that shrink; None: all of them.
            **kwargs: as there.
        """
        # By identity: variables of TensorFlow 2 have no hash.
        self._decayed = None if not decay_var_list else {id(each) for each in decay_var_list}
        pairs = list(grads_and_vars)
        # Else a variable could shrink before the gradients are computed with it.
        with tf.control_dependencies([grad for grad, _ in pairs if grad is not None]):
            return super().apply_gradients(pairs, *args, **kwargs)  # type: ignore[misc]  # as above

    def _decay(self, var: Any, indices: Any = None) -> list[Any]:
        """Returns the ops that shrink a variable, or some of its rows."""
        if self._decayed is not None and id(var) not in self._decayed:
            return []
        given = self._weight_decay
        share = tf.cast(given() if callable(given) else given, var.dtype.base_dtype)
        if indices is None:
            return [var.assign_sub(share * var)]
        return [tf1.scatter_sub(var, indices, share * tf.gather(var, indices))]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decay(var)):
            return super()._apply_dense(grad, var)  # type: ignore[misc]  # as above

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decay(var)):
            return super()._resource_apply_dense(grad, var)  # type: ignore[misc]  # as above

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        with tf.control_dependencies(self._decay(var, grad.indices)):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]  # as above

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        with tf.control_dependencies(self._decay(var, indices)):
            return super()._resource_apply_sparse(grad, var, indices)  # type: ignore[misc]  # as above


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """Returns a class of optimizers with the arguments of another one, after `weight_decay`.

    Args:
        base_optimizer: a subclass of `tf.compat.v1.train.Optimizer`.
    """

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):  # type: ignore[misc, valid-type]  # a class that is an argument
        """Optimizer with weight decay."""

    return OptimizerWithDecoupledWeightDecay


class AdamWOptimizer(DecoupledWeightDecayExtension, tf1.train.AdamOptimizer):
    """Adam with weight decay; its arguments follow `weight_decay`."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)


class MomentumWOptimizer(DecoupledWeightDecayExtension, tf1.train.MomentumOptimizer):
    """Momentum with weight decay; its arguments follow `weight_decay`."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(weight_decay, learning_rate, momentum, use_locking, name, use_nesterov)


class LARSOptimizer(tf1.train.MomentumOptimizer):
    """Momentum whose rate for a variable grows with its norm by that of its gradient.

    For weights w with gradient g the rate is

        learning_rate * eeta * |w| / (|g| + weight_decay * |w| + epsilon),

    and the gradient is g + weight_decay * w (You, Gitman and Ginsburg, 2017). The slot sums
    gradients times their rates.

    Args:
        learning_rate: a number or tensor.
        momentum: a number.
        weight_decay: a number.
        eeta: the "trust coefficient".
        epsilon: added to the divisor.
        name: of the optimizer.
        skip_list: parts of the names of variables that plain momentum trains, such as biases.
        use_nesterov: whether momentum is Nesterov's.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Sequence[str] | None = None,
        use_nesterov: bool = False,
    ) -> None:
        if momentum < 0.0:
            raise ValueError(f"momentum should be positive: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"weight_decay should be positive: {weight_decay}")
        super().__init__(learning_rate, momentum, False, name, use_nesterov)
        self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
        self._skip_list = tuple(skip_list or ())

    _learning_rate_tensor: Any

    def _prepare(self) -> None:
        super()._prepare()
        # The rate is in what the slot sums.
        self._rate = self._learning_rate_tensor
        self._learning_rate_tensor = tf.ones_like(self._rate)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._apply_scaled(super()._apply_dense, grad, var)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return self._apply_scaled(super()._resource_apply_dense, grad, var)

    def _apply_scaled(self, apply: Callable[[Any, Any], Any], grad: Any, var: Any) -> Any:
        if not any(part in var.name for part in self._skip_list):
            norm, norm_of_grad = tf.norm(var), tf.norm(grad)
            scale = self._eeta * norm / (norm_of_grad + self._weight_decay * norm + self._epsilon)
            is_scaled = tf.logical_and(norm > 0.0, norm_of_grad > 0.0)
            grad = (grad + self._weight_decay * var) * tf.where(is_scaled, scale, 1.0)
        return apply(self._rate * grad, var)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        raise NotImplementedError("Sparse gradient updates are not supported: LARS needs norms.")

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return self._apply_sparse(grad, var)


class WrappingOptimizer(tf1.train.Optimizer):
    """Base of optimizers that do something beside the updates of another one.

    The other one creates the slot variables, so checkpoints of both fit together.

    Args:
        optimizer: the other one.
        name: name of this one.
    """

    def __init__(self, optimizer: Any, name: str) -> None:
        super().__init__(use_locking=False, name=name)
        self._optimizer = optimizer

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the other optimizer's gradients; see `tf.compat.v1.train.Optimizer`."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a slot variable of the other optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the names of the other optimizer's slots."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """Returns the variables of the other optimizer."""
        return self._optimizer.variables()


class MovingAverageOptimizer(WrappingOptimizer):
    """Optimizer that also keeps moving averages of the variables that another one trains.

    A saver of `swapping_saver` stores the averages under the variables' names and the variables
    under the averages', so evaluation and serving with a plain saver use the averages.

    Args:
        opt: the optimizer that trains.
        average_decay: see `tf.compat.v1.train.ExponentialMovingAverage`.
        num_updates: as there.
        sequential_update: whether averages wait for the step's update. Otherwise a step may take
            the variables before or after it.
    """

    def __init__(
        self,
        opt: Any,
        average_decay: float = 0.9999,
        num_updates: Any = None,
        sequential_update: bool = True,
    ) -> None:
        super().__init__(opt, "MovingAverage")
        self._averages = tf1.train.ExponentialMovingAverage(average_decay, num_updates)
        self._is_sequential = sequential_update
        self._other_names: dict[str, str] | None = None

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """Applies gradients and moves the averages; see `tf.compat.v1.train.Optimizer`."""
        pairs = list(grads_and_vars)
        update = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        trained = [variable for gradient, variable in pairs if gradient is not None]
        with tf.control_dependencies([update] if self._is_sequential else []):
            move_averages = self._averages.apply(trained)
        self._other_names = {}
        for variable in trained:
            names = variable.op.name, self._averages.average(variable).op.name
            self._other_names.update([names, names[::-1]])
        return tf.group(update, move_averages, name="train_with_avg")

    def swapping_saver(
        self, var_list: Any = None, name: str = "swapping_saver", **kwargs: Any
    ) -> Any:
        """Returns a saver for training that exchanges variables and their averages.

        Args:
            var_list: variables to save, as `tf.compat.v1.train.Saver` takes them; default: all
                that exist.
            name: of the saver.
            **kwargs: further arguments of `tf.compat.v1.train.Saver`.

        Raises:
            RuntimeError: without an earlier call of `minimize` or `apply_gradients`.
            ValueError: if `var_list` has a variable without its average, or the reverse.
        """
        other_names = self._other_names
        if other_names is None:
            raise RuntimeError(
                "Must call apply_gradients or minimize before creating the swapping_saver"
            )
        given = tf1.global_variables() if var_list is None else var_list
        saved = given if isinstance(given, dict) else private.variables_by_saved_name(given)
        # A partitioned variable is a list of parts, each with its own average.
        known = {name: found for name, found in saved.items() if not isinstance(found, list)}
        parts = (part for found in saved.values() if isinstance(found, list) for part in found)
        known |= {part.op.name: part for part in parts}

        def swap(name: str, variable: Any) -> Any:
            other = other_names.get(name)
            if other is not None and other not in known:
                raise ValueError(
                    f"Variable to swap {other} is not part of variables to save. This breaks "
                    "MovingAverageOptimizer: pass it to swapping_saver, too."
                )
            return variable if other is None else known[other]

        swapped = {
            name: [swap(part.op.name, part) for part in found]
            if isinstance(found, list)
            else swap(name, found)
            for name, found in saved.items()
        }
        return tf1.train.Saver(swapped, name=name, **kwargs)


def _cast(value: Any, like: Any) -> Any:
    return tf.cast(value, like.dtype.base_dtype)
