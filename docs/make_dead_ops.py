# SPDX-License-Identifier: Apache-2.0
"""Generates the table of docs/how_to/dead_ops.md from `estimator_spec.saved_models.dead_ops`.

python docs/make_dead_ops.py           writes the page's table
python docs/make_dead_ops.py --check   only says whether it is current: exit status 1 if not
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from estimator_spec.saved_models.dead_ops import verdicts

PAGE = Path(__file__).parent / "how_to" / "dead_ops.md"
BEGIN, END = "<!-- table: made by docs/make_dead_ops.py -->\n", "<!-- end -->\n"


def table() -> str:
    """Returns the ops by what can be done about them, as Markdown."""
    order = {"exact": 0, "package": 1, "none": 2}

    def group(op: verdicts.DeadOp) -> tuple[int, str, str]:
        advice = op.advice.replace(f"Addons>{op.name}", "Addons>…")
        return order[op.verdict], op.verdict, advice

    lines = ["| verdict | what to do | ops |", "|---|---|---|"]
    ops = sorted(verdicts.table().values(), key=lambda op: (*group(op), op.library, op.name))
    for (_, verdict, advice), found in itertools.groupby(ops, group):
        libraries = itertools.groupby(found, lambda op: op.library)
        names = "; ".join(
            f"{library}: {' '.join(f'`{op.name}`' for op in of_library)}"
            for library, of_library in libraries
        )
        lines.append(f"| {verdict} | {advice} | {names} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Returns the page with its table made anew."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> int:
    """Writes or checks the page, and returns the exit status."""
    if "--check" in arguments:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.stderr.write(f"{PAGE} is stale: run python docs/make_dead_ops.py\n")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
