# SPDX-License-Identifier: Apache-2.0
"""Generates docs/optimizers.md from `estimator_spec.convert.target_support`.

python docs/make_optimizers.py           writes the page
python docs/make_optimizers.py --check   only says whether it is current: exit status 1 if not
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from estimator_spec.convert import target_support
from estimator_spec.convert.target_support import ArgumentRule, OptimizerSupport

PAGE = Path(__file__).with_name("optimizers.md")

TEXT = """\
# Optimizers in other systems

<!-- Made by docs/make_optimizers.py from estimator_spec/convert/target_support.py; change that, and
run it again. -->

Conversions of [`estimator_spec.convert`](../migration_guide.md#moving-on) use this table, and
report what it means for a spec.

- `exact`: the same meaning; another name is given.
- `old → new`: the target has another default. Our value is passed, so results are the same.
- `only …`: other values are **lost**, which is an error without `allow_lossy=True`.

The targets:

- **proto**: `to_config_proto`, the old system's message.
- **TPUEmbedding**: `to_mid_level`, `to_tpu_embedding`, and tables of `PartialEmbedding` above its
  threshold.
- **TPUEmbeddingV2**: `to_tpu_embedding_v2`, for SparseCore.
- **Keras**: `to_distributed_embedding(optimizers="keras")`, the default: Keras 3's own optimizers.
  On SparseCore keras_rs trains tables by itself: by SGD, Adagrad, Adam and FTRL as TPUEmbeddingV2;
  what that hasn't, it refuses there. With Keras' JAX backend Adam differs there: jax_tpu_embedding
  corrects its bias, which the table's rate undoes, and divides by √v + ε·√(1 - β2ᵗ) in step t.
- **Keras, core**: `to_distributed_embedding(optimizers="core")`: one Keras optimizer of ours with
  the embedding core's rules. It needs the TensorFlow backend.

A table's `learning_rate_fn`, a function of the global step, becomes

{rates}

{optimizers}
"""

HEADERS = dict(
    zip(
        target_support.TARGETS,
        ("proto", "TPUEmbedding", "TPUEmbeddingV2", "Keras", "Keras, core"),
        strict=True,
    )
)


def page() -> str:
    """Returns the page."""
    kinds = target_support.optimizers()
    rates = [
        f"- {HEADERS[target]}: {text}." for target, text in target_support.RATE_FUNCTIONS.items()
    ]
    return TEXT.format(
        rates="\n".join(rates), optimizers="\n\n".join(section(kind) for kind in kinds)
    )


def section(kind: type) -> str:
    """Returns the table of one optimizer: a row for each argument, a column for each target."""
    targets = {
        target: target_support.find_support(target, kind) for target in target_support.TARGETS
    }
    lines = [f"## {kind.__name__}", ""]
    lines.append(f"| argument | default | {' | '.join(HEADERS.values())} |")
    lines.append("| --- " * (len(targets) + 2) + "|")
    names = [f"`{support.name}`" for support in targets.values()]
    lines.append(f"| becomes | | {' | '.join(names)} |")
    for argument in target_support.argument_names(kind):
        default = target_support.our_default(kind, argument)
        shown = "" if default is dataclasses.MISSING else f"{default}"
        cells = [cell(support, argument, default) for support in targets.values()]
        lines.append(f"| `{argument}` | {shown} | {' | '.join(cells)} |")
    lines += other_differences(targets)
    return "\n".join(lines)


def cell(support: OptimizerSupport, argument: str, default: object) -> str:
    """Returns the cell of one argument and target."""
    if support.lost:
        return "**lost**"
    rule: ArgumentRule = support.arguments[argument]
    text = "exact"
    if rule.default is not None:
        ours = "none" if default is dataclasses.MISSING else default
        text = f"{ours} → {rule.default}"
    if rule.condition is not None:
        text = (
            f"only {rule.condition.text}"
            if text == "exact"
            else f"{text}, only {rule.condition.text}"
        )
    if rule.target_argument not in ("", argument):
        text += f", as {rule.target_argument}"
    return f"{text}, {rule.note}" if rule.note else text


def other_differences(targets: dict[str, OptimizerSupport]) -> list[str]:
    """Returns the notes below a table."""
    lines: list[str] = []
    for target, support in targets.items():
        if support.lost:
            lines.append(f"- {HEADERS[target]}: {support.lost}.")
            continue
        if support.fixed:
            passed = ", ".join(f"`{name}={value}`" for name, value in support.fixed.items())
            lines.append(f"- {HEADERS[target]}: {passed} is passed as well.")
        together: dict[str, list[str]] = {}
        for argument, rule in support.arguments.items():
            if rule.condition is not None:
                together.setdefault(rule.consequence, []).append(f"`{argument}`")
        for otherwise, arguments in together.items():
            lines.append(f"- {HEADERS[target]}, other {', '.join(arguments)}: {otherwise}.")
        for what, condition, otherwise in support.other_differences:
            agree = f" They agree {condition.text}." if condition.text else ""
            lines.append(f"- {HEADERS[target]}, **{what}** {otherwise}.{agree}")
    return ["", *lines] if lines else []


def main(arguments: list[str]) -> int:
    """Writes or checks the page, and returns the exit status."""
    current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if "--check" in arguments:
        if current != page():
            sys.stderr.write(f"{PAGE} is stale: run python docs/make_optimizers.py\n")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
