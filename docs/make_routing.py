# SPDX-License-Identifier: Apache-2.0
"""Generates docs/routing.md from `tpu_columns.route`.

python docs/make_routing.py           writes the page
python docs/make_routing.py --check   only says whether it is current: exit status 1 if not
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

from tpu_columns import Hardware, LookupDevice, Mode, route

PAGE = Path(__file__).with_name("routing.md")

TEXT = """\
# Where a lookup runs

<!-- Made by docs/make_routing.py from tpu_columns.route; change that, and run it again. -->

A column may request a lookup device (`embedding_lookup_device=`). What a run does with it depends
on what the graph is for (`Mode`) and what the program runs on (`Hardware`).
`tpu_columns.route(column, mode, hardware)` is the whole rule.

- `Hardware.CPU`: `TPUEstimator(use_tpu=False)`, and every export for serving on a CPU.
- `Hardware.TPU`: a TPU, and `TPUEstimator(use_tpu=False, embedding_core='host')`, which does on the
  host what a TPU does.

{table}

What the devices mean:

- `cpu`: ids stay in the features; the column looks them up in a variable of the model.
- `tpu_tensor_core`: ids are padded to the column's `tensor_core_shape`, with a mask (or the
  weights) beside them; the column looks them up by dense ops, in a variable that the model trains.
- `tpu_embedding_core`: ids are taken out of the features and embeddings put in their place; the
  embedding core owns the table and trains it by the specification's optimizer.

The errors:

{errors}

A table with fewer rows than `EmbeddingConfigSpec(tensor_core_below=ROWS)`, whose columns request no
device, is looked up as if they requested `tpu_tensor_core`.
"""


def answer(device: LookupDevice | None, mode: Mode, hardware: Hardware) -> LookupDevice | str:
    """Returns the result of `route` for a column that requests `device`: a device or an error."""
    column = types.SimpleNamespace(name="column", embedding_lookup_device=device)
    try:
        return route(column, mode, hardware)
    except ValueError as error:
        return str(error).split(": ", 1)[1]


def page() -> str:
    """Returns the page."""
    header = ["requested device", "hardware", *(mode.name for mode in Mode)]
    rows = [header, ["---"] * len(header)]
    errors: dict[str, str] = {}
    for device in (None, *LookupDevice):
        for hardware in Hardware:
            cells = [f"`{device.value}`" if device else "none", hardware.name]
            for mode in Mode:
                found = answer(device, mode, hardware)
                if isinstance(found, LookupDevice):
                    cells.append(found.value)
                else:
                    cells.append("**error**")
                    errors[f"{cells[0]}, {mode.name}"] = found
            rows.append(cells)
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    listed = "\n".join(f"- {where}: {message}" for where, message in errors.items())
    return TEXT.format(table=table, errors=listed)


def main(arguments: list[str]) -> int:
    """Writes or checks the page, and returns the exit status."""
    current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if "--check" in arguments:
        if current != page():
            sys.stderr.write(f"{PAGE} is not what route() says: run python docs/make_routing.py\n")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
