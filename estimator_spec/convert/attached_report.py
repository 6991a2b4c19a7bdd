# SPDX-License-Identifier: Apache-2.0
"""What every conversion has, whatever it converts to."""

from __future__ import annotations

import dataclasses
from typing import Any

from estimator_spec.convert.features import Intake
from estimator_spec.convert.report import Report


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion(Intake):
    """A spec in the form of one of today's systems.

    Attributes:
        report: what is exact, changed and lost.
    """

    report: Report = dataclasses.field(repr=False)


def attach(made: Any, conversion: Conversion) -> Any:
    """Gives a converted object its conversion, as the attribute `conversion`.

    Args:
        made: an object of another library.
        conversion: where it comes from.

    Returns:
        The object.
    """
    # Past its own __setattr__, which would track (and save) it.
    object.__setattr__(made, "conversion", conversion)
    return made
