# SPDX-License-Identifier: Apache-2.0
"""Formats results as a Markdown page and a plot."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from training_time.goals import Goal, goals
from training_time.results import BASE, Results
from training_time.sides import SIDES, Side
from training_time.workloads import WORKLOADS, Workload

DISTURBED = 0.08  # other processes' share of the machine above which a process is run again
MAIN = ("reference", "default-v1", "default", "host", "no-lookups", "keras_rs", "fbgemm")
ASIDE = ("reference-resource", "older", "older-v1", "older-host")
COLOURS = {
    "reference": "#8c8c8c",
    "default-v1": "#17becf",
    "default": "#1f77b4",
    "host": "#2ca02c",
    "no-lookups": "#c7c7c7",
    "keras_rs": "#d62728",
    "fbgemm": "#9467bd",
}
GROUPS = (
    ("Training, 26 tables × 16, batch 1,024, Adagrad", ("grid/",)),
    ("Other optimizers", ("adam/", "sgd/")),
    (
        "Other inputs and sizes",
        ("weighted", "sequences", "mixed-300", "small-300", "huge/", "census"),
    ),
    ("Canned estimators, 26 columns, batch 1,024", ("canned/",)),
    ("Evaluate and predict: ms for 1,024 examples", ("evaluate/", "predict/")),
    ("Embedding part alone: look up, constant gradient, update", ("embedding/",)),
)


def number(value: float) -> str:
    """Formats a number with three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(results: Results, workload: str, side: str, figure: str = "ms") -> str:
    """Formats milliseconds, and the ratio to the reference with its spread."""
    median = results.median(workload, side, figure)
    if median is None:
        return "failed" if results.error(workload, side) else "–"
    ratio = results.ratio(workload, side, BASE, figure) if side != BASE else None
    shares = [run.figures.get("others", 0.0) for run in results.of(workload, side)]
    star = "\\*" if max(shares) > DISTURBED else ""
    return f"{number(median)}{star} · {ratio}" if ratio else number(median) + star


def grid(head: list[str], rows: list[list[str]]) -> str:
    """Formats a Markdown table with right-aligned numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def present_in(results: Results, chosen: list[Workload], who: list[Side]) -> list[Side]:
    """Returns the sides with results for any of the workloads."""
    return [side for side in who if any(results.of(w.name, side.name) for w in chosen)]


def table(results: Results, chosen: list[Workload], who: list[Side]) -> str:
    """Formats milliseconds and ratios of workloads by side."""
    present = present_in(results, chosen, who)
    rows = [
        [workload.name, *(cell(results, workload.name, side.name) for side in present)]
        for workload in chosen
        if any(results.of(workload.name, side.name) for side in present)
    ]
    return grid(["workload", *(side.title for side in present)], rows)


def figures(results: Results, chosen: list[Workload], who: list[Side], figure: str) -> str:
    """Formats one number of workloads by side."""
    present = present_in(results, chosen, who)
    rows = []
    for workload in chosen:
        values = [results.median(workload.name, side.name, figure) for side in present]
        if any(value is not None for value in values):
            cells = ["–" if value is None else number(value) for value in values]
            rows.append([workload.name, *cells])
    return grid(["workload", *(side.title for side in present)], rows)


def span(goal: Goal) -> str:
    """Formats the range of a goal's measured numbers."""
    values = [check.value for check in goal.measured if check.value is not None]
    if len(values) > 1:
        return f"{min(values):.2f}–{max(values):.2f}"
    return f"{values[0]:.2f}" if values else "–"


def opening(found: list[Goal]) -> str:
    """Returns the first sentences of the page."""
    return OPENING.format_map({goal.text.partition(".")[0]: span(goal) for goal in found})


def goal_table(found: list[Goal]) -> str:
    """Formats each goal, the range of measured numbers, and whether it is met."""
    rows = [[goal.text, span(goal), goal.verdict] for goal in found]
    return grid(["goal", "measured", "met"], rows)


def misses(found: list[Goal]) -> str:
    """Formats the cells that miss a goal, one goal a line."""
    lines = []
    for goal in found:
        missed = [check for check in goal.measured if not check.met]
        if missed:
            named = ", ".join(f"{check.where} {check.value:.2f}" for check in missed)
            lines.append(f"- {goal.text.partition('.')[0]}: {named}")
    return "\n".join(lines)


def serving_table(results: Results, who: list[Side]) -> str:
    """Formats SavedModel calls by batch size."""
    names = [name for name in WORKLOADS if name.startswith("serve/")]
    present = present_in(results, [WORKLOADS[name] for name in names], who)
    rows = []
    for name, size in itertools.product(names, (1, 32, 1024)):
        cells = [cell(results, name, side.name, f"ms_{size}") for side in present]
        rows.append([f"{name}, batch {size:,}", *cells])
    return grid(["workload", *(side.title for side in present)], rows)


def versions(results: Results) -> str:
    """Formats the versions of each side."""
    lines = []
    for side in SIDES.values():
        runs = [run for run in results.runs if run.side == side.name and run.figures]
        if runs:
            found = (
                [run.figures["version"] for run in runs],
                [run.figures.get("revision", "") for run in runs],
                [f"({run.batch[:10]})" for run in runs],
            )
            parts = (" and ".join(dict.fromkeys(filter(None, part))) for part in found)
            text = " ".join(filter(None, parts))
            lines.append(f"- **{side.title}** (`{side.name}`): {text}")
    return "\n".join(lines)


def profile_text(profile: list[list[Any]], rows: int = 15) -> str:
    """Formats a profile's first rows and the sum of all."""
    lines = [f"{kind:<40}{micros:>9,} µs  × {count}" for kind, micros, count in profile[:rows]]
    whole, count = (sum(row[place] for row in profile) for place in (1, 2))
    return "\n".join([*lines, f"{'all':<40}{whole:>9,} µs  × {count}"])


def rounds(results: Results) -> str:
    """Formats the number of rounds, and of processes on a busy machine."""
    counts = {1 + run.round for run in results.runs if run.side == BASE}
    shares = [run.figures["others"] for run in results.runs if "others" in run.figures]
    disturbed = sum(share > DISTURBED for share in shares)
    most = max(counts, default=0)
    text = f"Rounds: {most} at most; a ratio without a spread is of one round, or of medians. "
    return text + (
        f"A process beside which others used more than {DISTURBED:.0%} of the machine was run "
        f"again where there was time; {disturbed} of {len(shares)} were disturbed each time, and "
        "their cells have a star."
    )


def about_sides(results: Results) -> str:
    """Says what the sides measure that not every workload has."""
    measured = {run.side for run in results.runs}
    return "\n".join(text for side, text in ABOUT_SIDES.items() if side in measured)


def page(results: Results, plot: str, command: str) -> str:
    """Returns the whole page."""
    everybody, main = list(SIDES.values()), [SIDES[name] for name in MAIN]
    found = goals(results)
    parts = [
        "# Benchmarks",
        f"![Step time of the grid by side]({plot})",
        opening(found),
        "## Goals",
        GOALS,
        goal_table(found),
        "Cells that miss a goal:\n\n" + misses(found) if misses(found) else "",
        "## Step time",
        CELLS,
    ]
    for title, beginnings in GROUPS:
        chosen = [w for name, w in WORKLOADS.items() if name.startswith(beginnings)]
        if present_in(results, chosen, main):
            parts += [f"### {title}", table(results, chosen, main)]
    if present_in(results, [w for w in WORKLOADS.values() if w.verb == "serve"], main):
        parts += ["### Serve: ms a call of the SavedModel", serving_table(results, main)]
    aside = [SIDES[name] for name in (BASE, "default-v1", "default", *ASIDE)]
    both = [w for w in WORKLOADS.values() if any(results.of(w.name, name) for name in ASIDE)]
    if both:
        parts += ["### Other TensorFlows and kinds of variables", table(results, both, aside)]
    trained = [w for w in WORKLOADS.values() if w.verb == "train"]
    built = [w for w in WORKLOADS.values() if w.verb == "first_step"]
    parts += [
        "## Time to first step, seconds",
        FIRST,
        figures(results, built, main, "first_step_s"),
        "## Peak memory, MiB",
        MEMORY,
        figures(results, trained, everybody, "peak_mib"),
        "Already taken when TensorFlow is imported:",
        figures(results, [WORKLOADS["grid/1id-dense-1e4"]], everybody, "imported_mib"),
        "## How it was measured",
        MEASURED.format(
            command=command,
            machine=results.machine,
            versions=versions(results),
            rounds=rounds(results),
            sides=about_sides(results),
        ),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


OPENING = """With 26 tables and one id an example, a training step takes {1a} of the time that it
takes under TensorFlow 2.15.1's own `TPUEstimator`, and {3a} with `embedding_core='host'`.
With ten ids it takes {1b}, and {3b} with `embedding_core='host'`.
[Goals](#goals) has the other figures and the goals that are missed,
[How it was measured](#how-it-was-measured) the machine, the versions and the programs."""

MEASURED = """Made by

```bash
{command}
```

which ran each workload in turn on the sides that can run it, every time in a fresh process, on
{machine}.
Every number is the median over the rounds of the median of a process; ratios are taken within a
round, also if the reference ran again later, whose milliseconds are then the newer ones; of sides
that ran at other times, between the medians. {rounds}

{versions}

The reference runs the same program with imports of its own, and says `tf.disable_v2_behavior()`,
as programs of TensorFlow 1 do, so it has reference variables: with resource variables it is slower,
[much slower](#other-tensorflows-and-kinds-of-variables) with large tables. Ours runs with that line
(`default-v1`) and without it (all others). No checkpoints are written; all else is as it comes: a
line in the log every 100 steps, summaries, random initial values. Ours trains by its
[native kernels](speed.md#native-kernels), which were built before. The batches (32 of them,
log-uniform ids) are made once, kept in memory by `tf.data` and given in turn, the same way on
every side. Steps are timed by the `global_step/sec` of TensorFlow's own log.

{sides}
[speed.md](speed.md) explains the optimizations, [speed_limits.md](speed_limits.md) what limits
them."""

ABOUT_SIDES = {
    "keras_rs": "keras-rs is only trained: it has no sequences, and census is a program for an\n"
    "estimator.",
    "fbgemm": "FBGEMM has the embedding part alone.",
    "no-lookups": '"Without lookups" is our side with a constant in place of the feature layers:\n'
    "what input, network and their optimizer take.",
}

GOALS = "Each number is a ratio: the smallest and the largest of the cells to which a goal applies."
CELLS = "Milliseconds a step · ratio to the reference: median (smallest–largest round)."
FIRST = "From making the columns to the end of a training of one step, without imports."
MEMORY = "The most that a process held, TensorFlow and the batches included."


def plot(results: Results, path: Path) -> None:
    """Plots step times of the grid as bars, one panel for each number of ids and kind of input.

    Raises:
        RuntimeError: matplotlib isn't installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise RuntimeError(
            "The plot needs matplotlib: pip install 'tpu-columns[benchmarks]'."
        ) from error
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "benchmarks"  # deterministic file for the same numbers
    import matplotlib.pyplot as plt

    # As wide as a telephone shows in full size: below each other, with letters that stay readable.
    figure, panels = plt.subplots(4, 1, figsize=(3.75, 9.5))
    kinds = [f"{ids}-{kind}" for ids in ("1id", "10ids") for kind in ("dense", "sparse")]
    for panel, kind in zip(panels.flat, kinds, strict=True):
        _panel(panel, results, kind)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=2, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.93), pad=0.3, h_pad=1)
    figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)
    # No trailing blanks; dark where the reader's system is.
    text = re.sub(r"[ \t]+$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    path.write_text(text.replace("</style>", f"{_DARK}</style>", 1), encoding="utf-8")


_DARK = "@media (prefers-color-scheme: dark) {svg {filter: invert(.88) hue-rotate(180deg)}}"


def _panel(panel: Any, results: Results, kind: str) -> None:
    names = [f"grid/{kind}-1e{power}" for power in (4, 5, 6)]
    shown = [s for s in MAIN if any(results.median(name, s) for name in names)]
    width = 0.8 / max(1, len(shown))
    for place, side in enumerate(shown):
        values = [results.median(name, side) or 0.0 for name in names]
        spots = [x + (place - (len(shown) - 1) / 2) * width for x in range(3)]
        bars = panel.bar(spots, values, width, label=SIDES[side].title, color=COLOURS[side])
        texts = [number(value) if value else "" for value in values]
        panel.bar_label(bars, texts, fontsize=8, rotation=90, padding=2)
    panel.set_yscale("log")
    panel.margins(y=0.25)  # the labels
    panel.set_xticks(range(3), ["10⁴ rows", "10⁵ rows", "10⁶ rows"])
    title = kind.replace("1id-", "one id, ").replace("10ids-", "10 ids, ")
    panel.set_title(f"{title}: ms a step, logarithmic", fontsize=10, loc="left")
    panel.tick_params(labelsize=9)
    panel.spines[["top", "right"]].set_visible(False)


def write(results: Results, path: Path, command: str) -> None:
    """Writes the page and its plot."""
    picture = path.with_suffix(".svg")
    plot(results, picture)
    path.write_text(page(results, picture.name, command), encoding="utf-8")
