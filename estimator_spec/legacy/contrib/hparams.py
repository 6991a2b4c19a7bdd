# SPDX-License-Identifier: Apache-2.0
"""Reimplements `tf.contrib.training.HParams`, which programs pass as `params`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_ASSIGNMENT = re.compile(
    r"(?P<name>[A-Za-z]\w*)(?:\[(?P<index>\d+)\])?\s*=\s*"
    r"(?:\[(?P<list>[^\]]*)\]|(?P<value>[^,\[\]]*))\s*(?:,\s*|$)"
)
_BOOLS = {"true": True, "1": True, "false": False, "0": False}


class HParams:
    """Named, typed hyperparameters, readable as attributes.

    >>> hparams = HParams(learning_rate=0.1, layers=[64, 32])
    >>> hparams.parse('learning_rate=0.5,layers=[8]')
    HParams([('layers', [8]), ('learning_rate', 0.5)])
    >>> hparams.learning_rate
    0.5

    The first value sets the type, to which `set_hparam` and `parse` convert. A hyperparameter that
    was None at first accepts any value.

    Args:
        **kwargs: the hyperparameters: numbers, strings, booleans, None, or lists of one type.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter.

        Raises:
            ValueError: the name is taken, or the value is an empty list.
        """
        if hasattr(self, name):
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Sets the value of a hyperparameter.

        Raises:
            KeyError: there is none of this name.
            ValueError: the value has another type, or is a list where one value is expected, or
                vice versa.
        """
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list) != is_list:
            expected = "a list" if is_list else "one value"
            raise ValueError(f"Hyperparameter {name!r} must be {expected}, got {value!r}.")
        if is_list:
            setattr(self, name, [_cast(name, kind, item) for item in value])
        else:
            setattr(self, name, _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter, if there is one of this name."""
        if name in self._hparam_types:
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Sets values from a string such as `rate=0.1,name=abc,layers=[2,3],layers[0]=4`.

        Args:
            values: comma-separated assignments.

        Returns:
            The object itself.

        Raises:
            ValueError: the string can't be parsed, or a value has the wrong type.
        """
        position = 0
        while position < len(values):
            match = _ASSIGNMENT.match(values, position)
            if match is None:
                raise ValueError(f"Malformed hyperparameter value: {values[position:]}")
            position = match.end()
            self._assign(match["name"], match["index"], match["list"], match["value"])
        return self

    def _assign(self, name: str, index: str | None, items: str | None, value: str | None) -> None:
        if name not in self._hparam_types:
            raise ValueError(f"Unknown hyperparameter: {name}")
        if index is not None:
            changed = list(getattr(self, name))
            changed[int(index)] = _cast(name, self._hparam_types[name][0], (value or "").strip())
            setattr(self, name, changed)
        elif items is not None:
            self.set_hparam(name, [item.strip() for item in items.split(",") if item.strip()])
        else:
            self.set_hparam(name, (value or "").strip())

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Sets values from a dictionary; returns the object itself."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Sets values from a JSON object; returns the object itself."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Returns the values as a JSON object, without functions."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """Returns the values by name."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of a hyperparameter, or `default` if there is none of this name."""
        return getattr(self, key) if key in self._hparam_types else default

    def __contains__(self, key: object) -> bool:
        return key in self._hparam_types

    def __iter__(self) -> Iterator[str]:
        return iter(self._hparam_types)

    def __getitem__(self, key: str) -> Any:
        if key not in self._hparam_types:
            raise KeyError(key)
        return getattr(self, key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({sorted(self.values().items())})"


def _cast(name: str, kind: type, value: Any) -> Any:
    """Converts a value to the type of its hyperparameter."""
    if kind is type(None) or callable(value):
        return value
    wrong = ValueError(
        f"Could not parse hparam {name!r} of type {kind.__name__!r} with value {value!r}"
    )
    if kind is bool:
        known = value if isinstance(value, bool) else _BOOLS.get(str(value).lower())
        if known is None:
            raise wrong
        return known
    if issubclass(kind, str) != isinstance(value, str) and not issubclass(kind, (int, float)):
        raise wrong
    # No rounding, and no number to string.
    if issubclass(kind, int) and isinstance(value, float) and value != int(value):
        raise wrong
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise wrong from None
