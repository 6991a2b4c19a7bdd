# SPDX-License-Identifier: Apache-2.0
"""Records the goldens anew, all or some, or checks them against a reference.

    python tests/goldens/record.py --python REFERENCE_PYTHON
    python tests/goldens/record.py warm_start program_gan --python REFERENCE_PYTHON
    python tests/goldens/record.py --check --python REFERENCE_PYTHON

REFERENCE_PYTHON has TensorFlow 2.15.1 with its Estimator; the python that runs this needs what the
tests need. `--check` records into a temporary directory, names each golden and entry that differs
beyond the tolerances of the tests, and exits with 1 if one does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "processes"))

import goldens

sys.path.insert(0, str(goldens.SCRIPTS))

# Of 300 drawn cases of a head these are kept, the last batches of each.
DRAWN, ACCEPTED, REFUSED, BATCHES = 300, 30, 10, 4
Named = Iterator[tuple[str, goldens.Record]]

_VERSIONS = """
import importlib.metadata, json
names = ("tensorflow", "tensorflow_estimator")
print(json.dumps({name: importlib.metadata.version(name) for name in names}))
"""


def versions(python: str) -> dict[str, str]:
    """Returns the versions of TensorFlow and its Estimator of a python."""
    done = subprocess.run([python, "-c", _VERSIONS], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def record_scripts(names: set[str], python: str) -> Named:
    """Runs each script of `tests/reference` once, for all its programs among the names."""
    for kind in goldens.KINDS:
        wanted = [name for name in kind.names if kind.prefix + name in names]
        if not wanted:
            continue
        print(f"running {kind.script} for {len(wanted)} programs", flush=True)
        with tempfile.TemporaryDirectory(prefix="goldens_") as home:
            donor = ["--donor", home] if kind.continues else []
            goldens.start("reference", python, kind.script, home, *wanted, *donor)
            for name in wanted:
                yield kind.prefix + name, goldens.recorded(kind, Path(home), name)


def record_unedited(names: set[str], python: str) -> Named:
    """Runs each program of `tests/programs` among the names."""
    for name, arguments in goldens.UNEDITED.items():
        if goldens.PROGRAM + name not in names:
            continue
        import unedited

        with tempfile.TemporaryDirectory(prefix="goldens_") as home:
            command = [python, str(goldens.PROGRAMS / f"{name}.py")]
            run = unedited.run_program(command, arguments, Path(home), "")
        yield goldens.PROGRAM + name, {"results": run.results, "exports": run.exports}


def record_heads(names: set[str], python: str, asked_before: bool) -> Named:
    """Asks the reference's heads; cases are drawn, or those of the goldens, asked before."""
    kind = goldens.HEADS
    wanted = [name for name in kind.names if kind.prefix + name in names]
    if not wanted:
        return
    import head_asker
    import head_cases
    from head_calls import decoded, encoded

    ask = head_asker.HeadAsker(python)
    for head in wanted:
        name = kind.prefix + head
        if head == "fixed":
            yield name, {key: ask(*request)[0] for key, request in head_cases.fixed().items()}
            continue
        request, strategy = head_cases.drawn(head)
        if asked_before:
            cases = [decoded(case) for case, _ in goldens.read(name).record["cases"]]
            pairs = [[encoded(case), ask(request, case)[0]] for case in cases]
        else:
            pairs = drawn_pairs(ask, request, strategy)
        yield name, {"cases": pairs}
    ask.close()


def drawn_pairs(ask, request, strategy):
    """Returns drawn cases with their answers: some that the reference accepts, some it refuses."""
    import hypothesis
    from head_calls import encoded
    from head_cases import drawing

    accepted, refused = [], []

    @hypothesis.settings(drawing, max_examples=DRAWN)
    @hypothesis.given(strategy)
    def draw(case):
        if len(accepted) == ACCEPTED and len(refused) == REFUSED:
            return
        case["batches"] = case["batches"][-BATCHES:]
        answer, _ = ask(request, case)
        pairs, limit = (refused, REFUSED) if "error" in answer else (accepted, ACCEPTED)
        if len(pairs) < limit:
            pairs.append([encoded(case), answer])

    draw()
    return accepted + refused


def record(names: set[str], python: str, asked_before: bool = False) -> Named:
    """Yields the records of all programs among the names."""
    yield from record_scripts(names, python)
    yield from record_unedited(names, python)
    yield from record_heads(names, python, asked_before)


def compared(name: str, found: goldens.Record, expected: goldens.Record) -> list[str]:
    """Returns how a new record differs from a golden's, entry by entry."""
    records = []
    for each in (found, expected):
        # Of files only names and sizes: what the model makes of them is compared.
        files = {file: len(content) for file, content in each.get("files", {}).items()}
        records.append({**each, "files": files})
    return list(goldens.record_differences(name, *records))


def check(names: set[str], python: str, folder: Path = goldens.FOLDER) -> int:
    """Compares goldens with new records; returns 1 if one differs, else 0."""
    wrong = {}
    for name, found in record(names, python, asked_before=True):
        try:
            wrong[name] = compared(name, found, goldens.read(name, folder).record)
        except goldens.Outdated as error:
            wrong[name] = [str(error)]
        print(f"{name}: {'differs' if wrong[name] else 'the same'}", flush=True)
    for lines in filter(None, wrong.values()):
        print(*lines[:10], sep="\n")
        if len(lines) > 10:
            print(f"... and {len(lines) - 10} other entries")
    count = len(list(filter(None, wrong.values())))
    print(f"{count} of {len(wrong)} goldens differ.")
    return 1 if count else 0


def main(arguments: list[str] | None = None) -> int:
    """Records or checks goldens; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="goldens; all if none is named")
    parser.add_argument("--python", required=True, help="with TensorFlow 2.15.1 and its Estimator")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    args = parser.parse_args(arguments)
    unknown = sorted(set(args.names) - set(goldens.ALL))
    if unknown:
        parser.error(f"no goldens are called {', '.join(unknown)}")
    names = set(args.names or goldens.ALL)
    if args.check:
        return check(names, args.python)
    of = versions(args.python)
    print(f"{len(names)} goldens of TensorFlow {of['tensorflow']}", flush=True)
    goldens.FOLDER.mkdir(exist_ok=True)
    begun = time.monotonic()
    for number, (name, found) in enumerate(record(names, args.python), 1):
        path = goldens.write(name, found, of)
        size, seconds = path.stat().st_size / 1024, time.monotonic() - begun
        line = f"{number}/{len(names)} {path.relative_to(goldens.ROOT)} {size:.0f} KiB"
        print(f"{line}, {seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
