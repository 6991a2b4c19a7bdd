# SPDX-License-Identifier: Apache-2.0
"""From a spec to today's systems, tables included."""

from estimator_spec.convert.config_proto import to_config_proto

__all__ = ["to_config_proto"]
