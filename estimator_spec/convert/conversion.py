# SPDX-License-Identifier: Apache-2.0
"""What every conversion has, whatever it converts to; and the extras that some need."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, ClassVar

from estimator_spec.convert.report import Report
from estimator_spec.convert.source import Source


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """A spec in the form of one of today's systems.

    Attributes:
        source: the spec, as it was read.
        report: what is exact, changed and lost.
    """

    source: Source = dataclasses.field(repr=False)
    report: Report = dataclasses.field(repr=False)

    form: ClassVar[str] = ""  # how the target takes features; see `features_for`
    drops_negative_weights: ClassVar[bool] = False  # its lookup, unless the combiner is sum

    def takes(self, feature: str) -> bool:
        """Whether the target looks a feature up."""
        return self.source.features[feature].table_id not in self.source.on_tensor_core

    def width(self, feature: str) -> int | None:
        """Ids in a row of a padded feature; None: as many as the batch has."""
        return None

    def finish(self, inputs: Any) -> Any:
        """What becomes of arranged inputs in the end."""
        return inputs

    def features(self, batch: Any) -> Any:
        """A legacy features dict as the target takes it; see `features_for`.

        Args:
            batch: tensors by key.
        """
        from estimator_spec.convert.features import features_for

        return features_for(self, batch)


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


def load_extra(module: str, extra: str) -> Any:
    """Imports an optional package.

    Args:
        module: name of the package.
        extra: the extra of this project that brings it.

    Raises:
        ImportError: it isn't there; one line, which names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise ImportError(
            f"{module} isn't installed: pip install 'tpu-columns[{extra}]'", name=module
        ) from None
