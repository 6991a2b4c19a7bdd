# SPDX-License-Identifier: Apache-2.0
"""Tables of text, and sizes that people can read."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(num_bytes: float) -> str:
    """A number of bytes.

    >>> size(96), size(4 << 30), size(1536)
    ('96 B', '4.0 GiB', '1.5 KiB')
    """
    unit = 0
    while num_bytes >= 1024 and unit < len(_UNITS) - 1:
        num_bytes /= 1024
        unit += 1
    return f"{num_bytes:.1f} {_UNITS[unit]}" if unit else f"{num_bytes:.0f} B"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, without blanks at the ends of lines.

    >>> print(table(["name", "rows"], [["word", "10"], ["tag", "1000"]]))
    name  rows
    ----  ----
    word  10
    tag   1000
    """
    lines = [list(head), ["-" * len(name) for name in head], *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for i, width in enumerate(widths):
        lines[1][i] = "-" * width
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
