# SPDX-License-Identifier: Apache-2.0
"""Slot names of `tf.tpu.experimental.embedding`, as in its objects and checkpoints."""

from __future__ import annotations

from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.optimizers import OptimizationParameters


def mid_level_slot_names(parameters: OptimizationParameters | None) -> dict[str, str]:
    """Returns the mid-level API's names of an optimizer's slots.

    >>> mid_level_slot_names(ours.AdamParameters(0.1))
    {'m': 'momenta', 'v': 'velocities'}

    Args:
        parameters: the optimizer, or None, which has no slots.

    Returns:
        Mid-level names by slot; empty for an optimizer without a counterpart there (see
        docs/optimizers.md). Slots without a counterpart are left out.
    """
    return _NAMES.get(type(parameters), {})


_NAMES: dict[type, dict[str, str]] = {
    ours.AdagradParameters: {"accumulator": "accumulators"},
    ours.ProximalAdagradParameters: {"accumulator": "accumulators"},
    ours.AdagradMomentumParameters: {"accumulator": "accumulators", "momenta": "momenta"},
    ours.AdamParameters: {"m": "momenta", "v": "velocities"},
    ours.FtrlParameters: {"accumulator": "accumulators", "linear": "linears"},
    ours.RMSPropParameters: {"ms": "velocities"},  # converted to Adam
}
