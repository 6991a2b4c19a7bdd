# SPDX-License-Identifier: Apache-2.0
"""Defines the base class of conversion results."""

from __future__ import annotations

import dataclasses
from typing import Any

from estimator_spec.convert.features import FeatureFormat
from estimator_spec.convert.report import Report


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion(FeatureFormat):
    """Base class of the result of a conversion.

    Attributes:
        report: options that are exact, changed and lost.
    """

    report: Report = dataclasses.field(repr=False)


def attach(made: Any, conversion: Conversion) -> Any:
    """Sets the attribute `conversion` of a converted object.

    Args:
        made: an object of another library.
        conversion: the conversion.

    Returns:
        The object.
    """
    # Bypasses __setattr__ of Keras and tf.Module, which would track and save the value.
    object.__setattr__(made, "conversion", conversion)
    return made
