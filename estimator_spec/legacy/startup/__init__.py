# SPDX-License-Identifier: Apache-2.0
"""Directory on the PYTHONPATH of child processes; see `estimator_spec.legacy.child_processes`."""
