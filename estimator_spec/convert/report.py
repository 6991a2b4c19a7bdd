# SPDX-License-Identifier: Apache-2.0
"""Reports the exact, changed and lost options of a conversion.

Each conversion logs its report, and raises it as an error if an option is lost, unless the caller
allows losses.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.convert import target_support
from estimator_spec.convert.resolved_spec import ResolvedSpec
from estimator_spec.core.checkpoints.spec_tables import TableNames, list_tables


class Status(enum.Enum):
    """Result of a conversion for one option.

    EXACT: the meaning is the same. CHANGED: the target has another name or default for it, or it is
    left to another part of the program, or starts from initial values, as the note says. LOST:
    the target's results differ.
    """

    EXACT = "exact"
    CHANGED = "changed"
    LOST = "lost"


@dataclasses.dataclass(frozen=True)
class Entry:
    """Entry of a report.

    Attributes:
        table: key of the table; '' for the whole spec.
        argument: an argument of the optimizer, spec, table or feature.
        status: the result.
        value: value of the argument.
        old: our default, or the former value.
        new: the target's default or value.
        note: further explanation.
    """

    table: str
    argument: str
    status: Status
    value: Any = None
    old: Any = None
    new: Any = None
    note: str = ""

    @classmethod
    def changed(cls, table: str, argument: str, old: Any, new: Any, note: str = "") -> Entry:
        """Returns the entry of an argument whose value `old` becomes `new`."""
        return cls(table, argument, Status.CHANGED, old, old, new, note)

    def __str__(self) -> str:
        text = f"{self.status.value:7}  {self.table or 'the spec'}  {self.argument}"
        if self.status is Status.CHANGED:
            text += f": {self.old} → {self.new}"
        elif self.value is not None:
            text += f": {self.value}"
        return f"{text}  ({self.note})" if self.note else text


@dataclasses.dataclass(frozen=True)
class Report:
    """Report of a conversion.

    Attributes:
        target: name of the target.
        entries: the entries, by table.
        names: all names of each table, by key.
    """

    target: str
    entries: tuple[Entry, ...]
    names: Mapping[str, TableNames] = dataclasses.field(default_factory=dict)

    def of(self, status: Status) -> tuple[Entry, ...]:
        """Returns the entries with a status."""
        return tuple(entry for entry in self.entries if entry.status is status)

    @property
    def lost(self) -> tuple[Entry, ...]:
        """Returns entries with other results in the target."""
        return self.of(Status.LOST)

    @property
    def changed(self) -> tuple[Entry, ...]:
        """Returns entries with another form and the same results."""
        return self.of(Status.CHANGED)

    @property
    def exact(self) -> tuple[Entry, ...]:
        """Returns entries with the same meaning."""
        return self.of(Status.EXACT)

    def in_full(self) -> str:
        """Returns all entries as text; `str` leaves out exact ones."""
        return self._text(self.lost + self.changed + self.exact)

    def __str__(self) -> str:
        return self._text(self.lost + self.changed)

    def _text(self, entries: tuple[Entry, ...]) -> str:
        counts = ", ".join(f"{len(self.of(status))} {status.value}" for status in Status)
        lines = [f"Conversion to {self.target}: {counts}."]
        tables = dict.fromkeys(entry.table for entry in entries if entry.table in self.names)
        lines += [f"table    {self.names[table]}" for table in tables]
        return "\n  ".join([*lines, *map(str, entries)])


class LossyConversionError(ValueError):
    """A conversion would lose options, which its `report` names.

    Args:
        report: the conversion's report.
        instead: an alternative, if there is one.
    """

    def __init__(self, report: Report, instead: str = "") -> None:
        self.report = report
        super().__init__(
            f"{report}\nThe results of the target would differ. Pass allow_lossy=True to convert "
            f"anyway, or change the lost options.{instead and ' ' + instead}"
        )


def build_report(
    target: str,
    source: ResolvedSpec,
    more: list[Entry],
    allow_lossy: bool,
    optimizer_target: str | None = None,
    tables: Iterable[str] | None = None,
    instead: str = "",
) -> Report:
    """Builds, checks and logs the report of a conversion.

    Args:
        target: name of the target for the report.
        source: the resolved spec.
        more: entries other than those of the optimizers.
        allow_lossy: whether losses are accepted.
        optimizer_target: one of `target_support.TARGETS`, for the optimizers' entries; None: none.
        tables: tables with optimizer entries; None: all that aren't on the tensor core.
        instead: an alternative to a lossy conversion, for the error.

    Raises:
        LossyConversionError: an option is lost, and `allow_lossy` is False.
    """
    entries = list(more)
    for table in source.core_tables if tables is None else sorted(set(tables)):
        parameters = source.parameters(table)
        if optimizer_target is not None and parameters is not None:
            entries += optimizer_entries(
                optimizer_target, table, parameters, source.learning_rate(table)
            )
    names = {table.key: table.names for table in list_tables(source.spec)}
    report = Report(target, tuple(entries), names)
    if report.lost and not allow_lossy:
        raise LossyConversionError(report, instead)
    log = tf.compat.v1.logging.warning if report.lost else tf.compat.v1.logging.info
    log("%s", report)
    return report


def optimizer_entries(target: str, table: str, parameters: Any, rate: Any) -> list[Entry]:
    """Returns the entries of a table's optimizer, in one of `target_support.TARGETS`."""
    support = target_support.find_support(target, parameters)
    kind = type(parameters)
    name = kind.__name__.removesuffix("Parameters")
    if support.lost:
        return [Entry(table, name, Status.LOST, None, name, support.name, support.lost)]
    entries = []
    if callable(rate):
        old, new = getattr(rate, "__name__", rate), target_support.RATE_FUNCTIONS[target]
        entries.append(Entry(table, "learning_rate_fn", Status.CHANGED, rate, old, new))
    for argument in target_support.argument_names(kind):
        value, rule = getattr(parameters, argument), support.arguments[argument]
        label = f"{name}.{argument}"
        if argument == "learning_rate":
            if callable(rate):
                continue  # replaces the optimizer's rate
            value = rate
        default = target_support.our_default(kind, argument)
        if rule.condition is not None and value is not None and not rule.holds(parameters):
            note = f"{rule.consequence}; exact only for {rule.condition.text}"
            entries.append(Entry(table, label, Status.LOST, value, note=note))
        elif rule.default is not None:
            note = f"defaults; here {value}, which is passed"
            old = "none" if default is dataclasses.MISSING else default
            entries.append(Entry(table, label, Status.CHANGED, value, old, rule.default, note))
        else:
            renamed = rule.target_argument not in ("", argument)
            notes = [f"as {support.name}'s {rule.target_argument}"] if renamed else []
            note = ", ".join([*notes, *([rule.note] if rule.note else [])])
            entries.append(Entry(table, label, Status.EXACT, value, note=note))
    for what, condition, consequence in support.other_differences:
        if not condition.holds(parameters):
            entries.append(Entry(table, f"{name}: {what}", Status.LOST, note=consequence))
    return entries


def table_entries(source: ResolvedSpec, tables: list[str]) -> list[Entry]:
    """Returns the entries of combiners and hot id replication of the converted tables."""
    entries = []
    for table in tables:
        config = source.tables[table]
        if config.hot_id_replication:
            entries.append(
                Entry.changed(table, "hot_id_replication", True, "none", "affects speed only")
            )
        if config.combiner is None:
            new = source.combiner(table)
            if source.combiner_is_ambiguous(table):
                note = (
                    "sum on a TPU, mean on a CPU: say hardware=tpu_columns.Hardware.TPU or .CPU, or"
                    " give the column a combiner"
                )
                entries.append(Entry(table, "combiner", Status.LOST, None, None, new, note))
            else:
                entries.append(Entry.changed(table, "combiner", None, new))
        else:
            entries.append(Entry(table, "combiner", Status.EXACT, config.combiner))
    return entries


def layout_entries(source: ResolvedSpec) -> list[Entry]:
    """Returns the entries of shards and profile, for targets with layouts of their own."""
    entries = []
    if source.spec.partition_strategy != "div":
        note = "layout only, results are the same"
        entries.append(Entry.changed("", "partition_strategy", "mod", "the target's", note))
    directory = source.spec.profile_data_directory
    if directory:
        note = "affects speed only"
        entries.append(Entry.changed("", "profile_data_directory", directory, "none", note))
    return entries


def multiplier_entries(source: ResolvedSpec, instead: str) -> list[Entry]:
    """Returns the entry of the gradient multiplier, for targets without one."""
    function = source.spec.experimental_gradient_multiplier_fn
    if function is None:
        return []
    argument = "experimental_gradient_multiplier_fn"
    return [Entry("", argument, Status.LOST, getattr(function, "__name__", function), note=instead)]
