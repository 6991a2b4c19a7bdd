# SPDX-License-Identifier: Apache-2.0
"""Compares training, evaluation and prediction with TensorFlow 2.15.1's TPUEstimator and keras-rs.

    python benchmarks/training.py --output docs/benchmarks.md
    python benchmarks/training.py --workloads grid/1id-dense-1e5 --sides reference,default,host

Every workload runs on all sides in turn, several rounds, each time in a fresh process that warms
up and then times hundreds of steps. An interpreter that isn't given is made in a cache directory.
Results are merged into a JSON file, so a long run can be done in parts: `--missing` runs
the workloads that aren't complete; `--more` adds rounds where all chosen sides have some of one
batch, and begins anew where not; `--pages` writes page and plot of what is there, and `--check`
compares them with a page. `--list` names what there is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from training_time import clocks, environments, goals, pages, results, sides, workloads
from training_time.results import Results, Run
from training_time.sides import Side
from training_time.workloads import Workload

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
COMMAND = """\
python benchmarks/training.py --output docs/benchmarks.md             # the usual sides, some hours
python benchmarks/training.py --more --workloads NAMES --sides SIDES  # in parts, as here
python benchmarks/training.py --pages --output docs/benchmarks.md     # what the parts found"""
DEFAULT_SIDES = "reference,default-v1,default,host,keras_rs"
# Seconds that a process waits for an idle machine at most.
PATIENCE = 30


def environment_variables(side: Side) -> dict[str, str]:
    """Returns the environment of a side's process."""
    own = ROOT if side.ours else HERE / "training_time" / "reference"
    path = (own, HERE, ROOT / "examples" / "census")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # Of the other sides only some would use a GPU.
        **({} if side.gpu else {"CUDA_VISIBLE_DEVICES": "-1"}),
    }


def wait_for_quiet() -> None:
    """Waits until other processes leave the machine idle, or for a maximum time."""
    end = time.monotonic() + PATIENCE
    neighbours = clocks.Neighbours()
    time.sleep(0.5)
    while neighbours.share() > pages.DISTURBED and time.monotonic() < end:
        neighbours = clocks.Neighbours()
        time.sleep(2.0)


def measure(
    python: str, side: Side, workload: Workload, seconds: float, profile: bool = False
) -> tuple[dict, str | None]:
    """Returns the results of one fresh process, or an error."""
    task = {
        "workload": workload.name,
        "framework": side.framework,
        "core": side.core,
        "reference_variables": side.reference_variables,
        "constant_layers": side.constant_layers,
        "plain": side.plain,
        "tables_on_cpu": side.tables_on_cpu,
        "profile": profile,
    }
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "figures.json")
        command = [python, "-m", "training_time.process", json.dumps(task), str(path)]
        try:
            done = subprocess.run(
                command,
                env=environment_variables(side),
                cwd=directory,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return {}, f"not done within {seconds:.0f} s"
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8")), None
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {}, lines[-1][:300]


def revision() -> str:
    """Returns the revision of this project."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True)
    return f"at {done.stdout.strip()}" if done.returncode == 0 else ""


def describe(run: Run) -> str:
    """Formats one process as a line."""
    if run.error:
        return f"FAILED: {run.error}"
    text = f"{run.value():8.2f} ms"
    if "cpu_ms" in run.figures:
        text += f", CPU {run.value('cpu_ms'):.2f} ms"
    if "first_step_s" in run.figures:
        text += f", first step {run.value('first_step_s'):.1f} s"
    return text + f", peak {run.value('peak_mib'):,.0f} MiB"


def batch_of(found: Results, workload: Workload, who: list[Side]) -> tuple[str, list[int]]:
    """Returns the batch that all sides of a workload share, and the rounds of each."""
    runs = [found.of(workload.name, side.name) for side in who if side.runs(workload)]
    batches = {run.batch for side in runs for run in side}
    if len(batches) != 1 or not all(runs):
        return "", []
    return batches.pop(), [1 + max(run.round for run in side) for side in runs]


def complete(found: Results, workload: Workload, who: list[Side], rounds: int) -> bool:
    """Returns whether each side of a workload has this many rounds in one batch."""
    return min(batch_of(found, workload, who)[1], default=0) >= rounds


def run_all(
    chosen: list[Workload], who: list[Side], pythons: dict[str, str], options: argparse.Namespace
) -> Results:
    """Runs all sides in turn; writes the file after each process."""
    path = Path(options.results)
    found = results.read(path)
    found.machine = results.machine()
    if options.missing:
        chosen = [w for w in chosen if not complete(found, w, who, options.rounds)]
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    begun = {w: batch_of(found, w, who) if options.more else ("", []) for w in chosen}
    done = {workload: max(rounds, default=0) for workload, (_, rounds) in begun.items()}
    plan = [
        (workload, begun[workload][0] or now, round_, side)
        for workload in chosen
        for round_ in range(done[workload], done[workload] + options.rounds)
        # Alternating order: the machine's speed drifts.
        for side in (who if round_ % 2 == 0 else who[::-1])
        if side.runs(workload)
    ]
    failed: set[tuple[str, str]] = set()
    for number, (workload, batch, round_, side) in enumerate(plan, 1):
        if (workload.name, side.name) in failed:
            continue
        begin = time.perf_counter()
        for attempt in range(options.tries):
            if options.tries > 1:
                wait_for_quiet()
            figures, error = measure(pythons[side.environment], side, workload, options.timeout)
            if error or figures["others"] <= pages.DISTURBED or attempt + 1 == options.tries:
                break
            print(f"    others used {figures['others']:.0%} of the machine; once more", flush=True)
        if side.ours and figures:
            figures["revision"] = revision()
        run = Run(workload.name, side.name, batch, round_, figures, error)
        if error:
            failed.add((workload.name, side.name))
        found.add(run)
        results.write(found.newest_only(), path)
        took = time.perf_counter() - begin
        name = f"{workload.name:<24}{side.name:<20}round {round_ + 1}"
        print(f"[{number}/{len(plan)}] {name} {describe(run)} ({took:.0f} s)", flush=True)
    return found


def print_profiles(
    chosen: list[Workload], who: list[Side], pythons: dict[str, str], seconds: float
) -> None:
    """Profiles the ops of a training step by workload and side."""
    for workload in chosen:
        for side in who:
            if side.framework == "estimator":
                python = pythons[side.environment]
                figures, error = measure(python, side, workload, seconds, profile=True)
                print(f"\n{workload.name}, {side.title}, a step:")
                print(error or pages.profile_text(figures["profile"]), flush=True)


def check_page(page: Path) -> int:
    """Prints each goal's verdict; returns 1 if the page isn't what the results beside it give."""
    found = results.read(page.with_suffix(".json"))
    for goal in goals.goals(found):
        print(f"{goal.verdict}: {goal.text}")
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory, page.name)
        pages.write(found, made, COMMAND)
        same = made.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    print(f"{page} is {'' if same else 'not '}what {page.with_suffix('.json').name} gives")
    return int(not same)


def main() -> None:
    """Runs the measurements and writes the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", default="all", help="names or their beginnings, by commas")
    parser.add_argument("--sides", default=DEFAULT_SIDES, help=f"of {', '.join(sides.SIDES)}")
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes of each side")
    parser.add_argument("--quick", action="store_true", help="one round of as few steps as can be")
    parser.add_argument("--tries", type=int, default=3, help="for a process that was disturbed")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a process")
    for name in environments.NAMES:
        parser.add_argument(f"--{name}-python", metavar="PATH", help=f"runs the side(s) of {name}")
    parser.add_argument("--results", default=str(ROOT / "build" / "benchmarks.json"))
    parser.add_argument("--output", help="the page, a .md; its plot, a .svg, comes beside it")
    parser.add_argument("--pages", action="store_true", help="only write the page again")
    parser.add_argument("--check", action="store_true", help="compare --output with the results")
    parser.add_argument("--missing", action="store_true", help="only what the results don't have")
    parser.add_argument(
        "--more",
        action="store_true",
        help="add rounds, if all sides share a batch",
    )
    parser.add_argument("--profile", action="store_true", help="print what a step's ops take")
    parser.add_argument("--list", action="store_true", help="what there is, and stop")
    options = parser.parse_args()
    if options.list:
        print("workloads:", *workloads.WORKLOADS, "\nsides:", *sides.SIDES)
        return
    if options.check:
        sys.exit(check_page(Path(options.output or ROOT / "docs" / "benchmarks.md")))
    if options.quick:
        options.rounds = 1
        os.environ["TRAINING_TIME_QUICK"] = "1"
    try:
        chosen, who = workloads.select(options.workloads), sides.select(options.sides)
    except ValueError as error:
        parser.error(str(error))
    if options.pages:
        found = results.read(Path(options.results))
    else:
        needed = {s.environment for s in who if any(map(s.runs, chosen))}
        try:
            pythons = {
                name: environments.python_of(name, getattr(options, f"{name}_python"))
                for name in sorted(needed)
            }
        except RuntimeError as error:
            sys.exit(f"error: {error}")
        if options.profile:
            print_profiles(chosen, who, pythons, options.timeout)
            return
        found = run_all(chosen, who, pythons, options)
        print("\n" + pages.table(found, chosen, who))
    if options.output:
        try:
            pages.write(found, Path(options.output), COMMAND)
        except RuntimeError as error:
            sys.exit(f"error: {error}")
        print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
