# SPDX-License-Identifier: Apache-2.0
"""The names of `tf.estimator.export`."""

from estimator_spec.core.export import *  # noqa: F403  the names of its __all__
from estimator_spec.core.export import __all__ as __all__
