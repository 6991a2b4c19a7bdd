# SPDX-License-Identifier: Apache-2.0
"""What a conversion keeps, what it changes and what it loses, line by line.

Each conversion has a report. It is logged, and an error if something is lost, unless the caller
allows that.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.convert import target_support
from estimator_spec.convert.spec_source import Source


class Status(enum.Enum):
    """How something fares in a conversion.

    EXACT: it means the same. CHANGED: it is written differently, or the target's default differs,
    and results are the same; or it is another's task now, or begins anew, as the note says. LOST:
    results differ.
    """

    EXACT = "exact"
    CHANGED = "changed"
    LOST = "lost"


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line of a report.

    Attributes:
        table: key of the table; '' for the spec as a whole.
        argument: what it is about: an optimizer's argument, or one of the spec, table or feature.
        status: how it fares.
        value: its value.
        old: what was: our default, or the value.
        new: what is now: the target's default or value.
        note: the rest, in words.
    """

    table: str
    argument: str
    status: Status
    value: Any = None
    old: Any = None
    new: Any = None
    note: str = ""

    def __str__(self) -> str:
        text = f"{self.status.value:7}  {self.table or 'the spec'}  {self.argument}"
        if self.status is Status.CHANGED:
            text += f": {self.old} → {self.new}"
        elif self.value is not None:
            text += f": {self.value}"
        return f"{text}  ({self.note})" if self.note else text


@dataclasses.dataclass(frozen=True)
class Report:
    """All lines of a conversion.

    Attributes:
        target: what was converted to.
        entries: the lines, by table.
    """

    target: str
    entries: tuple[Entry, ...]

    def of(self, status: Status) -> tuple[Entry, ...]:
        """The lines of one kind."""
        return tuple(entry for entry in self.entries if entry.status is status)

    @property
    def lost(self) -> tuple[Entry, ...]:
        """What is lost."""
        return self.of(Status.LOST)

    @property
    def changed(self) -> tuple[Entry, ...]:
        """What is written differently, with the same results."""
        return self.of(Status.CHANGED)

    @property
    def exact(self) -> tuple[Entry, ...]:
        """What is as it was."""
        return self.of(Status.EXACT)

    def in_full(self) -> str:
        """All lines; `str` leaves out what is exact."""
        return self._text(self.lost + self.changed + self.exact)

    def __str__(self) -> str:
        return self._text(self.lost + self.changed)

    def _text(self, entries: tuple[Entry, ...]) -> str:
        counts = ", ".join(f"{len(self.of(status))} {status.value}" for status in Status)
        lines = [f"Conversion to {self.target}: {counts}."]
        return "\n  ".join([*lines, *map(str, entries)])


class LossyConversionError(ValueError):
    """A conversion would lose something. Its `report` says what.

    Args:
        report: of the conversion.
        instead: another way, if there is one.
    """

    def __init__(self, report: Report, instead: str = "") -> None:
        self.report = report
        super().__init__(
            f"{report}\nThe results of the target would differ. Pass allow_lossy=True to convert "
            f"all the same, or change what is lost.{instead and ' ' + instead}"
        )


def make(
    target: str,
    source: Source,
    more: list[Entry],
    allow_lossy: bool,
    facts_of: str | None = None,
    tables: Iterable[str] | None = None,
    instead: str = "",
) -> Report:
    """Makes, checks and logs the report of a conversion.

    Args:
        target: what is converted to, for a person.
        source: the spec.
        more: lines beside those of the optimizers.
        allow_lossy: whether losses are only reported.
        facts_of: target of the table of facts whose optimizers are used; None: no optimizers.
        tables: those whose optimizers are; None: all that aren't on the tensor core.
        instead: another way than a conversion with losses, for the error.

    Raises:
        LossyConversionError: something is lost, and isn't allowed to be.
    """
    entries = list(more)
    trained = set(source.tables) - source.on_tensor_core if tables is None else set(tables)
    for table in sorted(trained):
        parameters = source.parameters(table)
        if facts_of is not None and parameters is not None:
            entries += of_optimizer(facts_of, table, parameters, source.learning_rate(table))
    report = Report(target, tuple(entries))
    if report.lost and not allow_lossy:
        raise LossyConversionError(report, instead)
    log = tf.compat.v1.logging.warning if report.lost else tf.compat.v1.logging.info
    log("%s", report)
    return report


def of_optimizer(target: str, table: str, parameters: Any, rate: Any) -> list[Entry]:
    """The lines of one table's optimizer.

    Args:
        target: one of `facts.TARGETS`.
        table: key of the table.
        parameters: its optimizer.
        rate: the table's learning rate: its own, or the optimizer's.
    """
    becomes = target_support.becomes(target, parameters)
    kind = type(parameters)
    name = kind.__name__.removesuffix("Parameters")
    if becomes.lost:
        return [Entry(table, name, Status.LOST, None, name, becomes.name, becomes.lost)]
    entries = []
    if callable(rate):
        old, new = getattr(rate, "__name__", rate), target_support.RATE_FUNCTIONS[target]
        entries.append(Entry(table, "learning_rate_fn", Status.CHANGED, rate, old, new))
    for argument in target_support.arguments(kind):
        value, fact = getattr(parameters, argument), becomes.facts[argument]
        label = f"{name}.{argument}"
        if argument == "learning_rate":
            if callable(rate):
                continue  # it takes the place of the optimizer's rate
            value = rate
        default = target_support.our_default(kind, argument)
        if fact.only is not None and not fact.only.holds(parameters):
            note = f"{fact.otherwise}; exact only for {fact.only.text}"
            entries.append(Entry(table, label, Status.LOST, value, note=note))
        elif fact.default is not None:
            note = f"defaults; here {value}, which is passed"
            old = "none" if default is dataclasses.MISSING else default
            entries.append(Entry(table, label, Status.CHANGED, value, old, fact.default, note))
        else:
            note = "" if fact.becomes in ("", argument) else f"as {becomes.name}'s {fact.becomes}"
            entries.append(Entry(table, label, Status.EXACT, value, note=note))
    for what, only, otherwise in becomes.besides:
        if not only.holds(parameters):
            entries.append(Entry(table, f"{name}: {what}", Status.LOST, note=otherwise))
    return entries


def of_tables(source: Source, tables: list[str]) -> list[Entry]:
    """The lines about combiners of None and replication, which no target of today has.

    Args:
        source: the spec.
        tables: the tables that are converted.
    """
    entries = []
    for table in tables:
        config = source.tables[table]
        if config.hot_id_replication:
            note = "a matter of speed"
            entries.append(
                Entry(table, "hot_id_replication", Status.CHANGED, True, True, "none", note)
            )
        if config.combiner is None:
            new = source.combiner(table)
            if source.combiner_is_open(table):
                note = (
                    "sum on a TPU, mean on a CPU: say hardware=tpu_columns.Hardware.TPU or .CPU, or"
                    " give the column a combiner"
                )
                entries.append(Entry(table, "combiner", Status.LOST, None, None, new, note))
            else:
                entries.append(Entry(table, "combiner", Status.CHANGED, None, None, new))
        else:
            entries.append(Entry(table, "combiner", Status.EXACT, config.combiner))
    return entries


def of_layout(source: Source) -> list[Entry]:
    """The lines about the spec's shards and profile, for targets that place rows by themselves."""
    entries = []
    if source.spec.partition_strategy != "div":
        note = "how rows lie on shards: not a matter of results"
        entries.append(
            Entry("", "partition_strategy", Status.CHANGED, "mod", "mod", "the target's", note)
        )
    if source.spec.profile_data_directory:
        directory, note = source.spec.profile_data_directory, "a matter of speed"
        entries.append(
            Entry("", "profile_data_directory", Status.CHANGED, directory, directory, "none", note)
        )
    return entries


def of_multiplier(source: Source, instead: str) -> list[Entry]:
    """The line about the spec's gradient multiplier, for targets that have none."""
    function = source.spec.experimental_gradient_multiplier_fn
    if function is None:
        return []
    argument = "experimental_gradient_multiplier_fn"
    return [Entry("", argument, Status.LOST, getattr(function, "__name__", function), note=instead)]
