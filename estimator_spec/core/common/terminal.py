# SPDX-License-Identifier: Apache-2.0
"""Formats tables and sizes as text, and draws progress on terminals.

rich does the work. It is imported when it is needed, not when this module is.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_size(num_bytes: float) -> str:
    """Returns a number of bytes in a binary unit.

    >>> format_size(96), format_size(4 << 30), format_size(1536)
    ('96 B', '4.0 GiB', '1.5 KiB')
    """
    unit = 0
    while num_bytes >= 1024 and unit < len(_UNITS) - 1:
        num_bytes /= 1024
        unit += 1
    return f"{num_bytes:.1f} {_UNITS[unit]}" if unit else f"{num_bytes:.0f} B"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Returns a table in Markdown.

    >>> print(markdown_table(["name", "rows"], [["a|b", "10"]]))
    | name | rows |
    | --- | --- |
    | a\|b | 10 |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as text: aligned columns as wide as their contents, never cut or wrapped.

    >>> print(format_table(["name", "rows"], [["word", "10"], ["tag", "1000"]]))
    name  rows
    ----  ----
    word  10
    tag   1000
    """
    from rich.console import Console, Group
    from rich.rule import Rule
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        table.add_column(Group(name, Rule(characters="-")), no_wrap=True)
    if rows:
        # One row of many lines: ten times faster than a row for each.
        table.add_row(*("\n".join(column) for column in zip(*rows, strict=True)))
    text = io.StringIO()
    # Without a width and a height, rich takes those of the terminal.
    width = sum(max(2 * len(line[i]) + 2 for line in (header, *rows)) for i in range(len(header)))
    console = Console(
        file=text,
        width=width,
        height=len(rows) + 2,
        color_system=None,
        force_jupyter=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def is_terminal(stream: TextIO | None) -> bool:
    """Returns whether a stream is a terminal; a closed or missing one isn't."""
    return stream is not None and not stream.closed and stream.isatty()


class StatusLine:
    """A line of a terminal that is redrawn in place.

    Other output may come in between: the cursor waits at the left edge.

    Args:
        stream: the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.control import Control
        from rich.segment import ControlType

        self._console = Console(
            file=stream, force_terminal=True, force_jupyter=False, markup=False, highlight=False
        )
        self._clear = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
        self._is_shown = False

    def show(self, text: str) -> None:
        """Replaces the line; text wider than the terminal is cut."""
        self._console.control(self._clear)
        self._console.print(text, end="\r", no_wrap=True, overflow="ellipsis")
        self._is_shown = True

    def erase(self) -> None:
        """Removes the line, if there is one."""
        if self._is_shown:
            self._console.control(self._clear)
            self._is_shown = False


class ByteProgress:
    """Progress of a job over bytes: a bar on a terminal, or calls of a function.

    Args:
        total: bytes of the whole job.
        report: called with (bytes done, bytes in all) in place of the bar.
        stream: the bar's; None means standard error. Without a terminal there is no bar.
    """

    def __init__(
        self,
        total: int,
        report: Callable[[int, int], None] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        stream = stream or sys.stderr
        self._total = total
        self._done = 0
        self._report = report
        self._bar: Any = None
        if report is None and is_terminal(stream):
            self._bar = _new_bar(stream)
            self._task = self._bar.add_task("", total=total)

    def advance(self, num_bytes: int) -> None:
        """Counts bytes as done."""
        self._done += num_bytes
        if self._report is not None:
            self._report(self._done, self._total)
        elif self._bar is not None:
            self._bar.advance(self._task, num_bytes)

    def __enter__(self) -> ByteProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _new_bar(stream: TextIO) -> Any:
    """Returns a `rich.progress.Progress` that erases itself at the end."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(file=stream, force_terminal=True, force_jupyter=False),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
