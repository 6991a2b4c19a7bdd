# SPDX-License-Identifier: Apache-2.0
"""Names of slots in `tf.tpu.experimental.embedding`, whose objects and checkpoints use them."""

from __future__ import annotations

from estimator_spec.embedding import optimizers as ours
from estimator_spec.embedding.optimizers import OptimizationParameters


def mid_level_slot_names(parameters: OptimizationParameters) -> dict[str, str]:
    """The mid-level name of each of our slots that has one.

    >>> mid_level_slot_names(ours.AdamParameters(0.1))
    {'m': 'momenta', 'v': 'velocities'}

    Args:
        parameters: our optimizer. What takes its place in the mid-level API is in
            docs/optimizers.md; one without a counterpart has no slots there.
    """
    return _NAMES.get(type(parameters), {})


_NAMES: dict[type, dict[str, str]] = {
    ours.AdagradParameters: {"accumulator": "accumulators"},
    ours.ProximalAdagradParameters: {"accumulator": "accumulators"},
    ours.AdagradMomentumParameters: {"accumulator": "accumulators", "momenta": "momenta"},
    ours.AdamParameters: {"m": "momenta", "v": "velocities"},
    ours.FtrlParameters: {"accumulator": "accumulators", "linear": "linears"},
    ours.RMSPropParameters: {"ms": "velocities"},  # as Adam
}
