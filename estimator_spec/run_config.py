# SPDX-License-Identifier: Apache-2.0
"""`RunConfig` without and with a `tpu_config`, and the classes of its arguments."""

from estimator_spec.core.run_config import *  # noqa: F403  the names of its __all__
from estimator_spec.core.run_config import __all__ as __all__  # type: ignore[attr-defined]
