# SPDX-License-Identifier: Apache-2.0
"""The blocks of code of the migration guide, and of the pages of its imports and conversions."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import forking_python
from estimator_spec import __main__ as command_line

ROOT = Path(__file__).resolve().parents[3]
GUIDE, IMPORTS, CONVERSIONS = (
    (ROOT / page).read_text(encoding="utf-8")
    for page in ("migration_guide.md", "docs/imports.md", "docs/how_to/convert_a_spec.md")
)
PAGES = "\n".join((GUIDE, IMPORTS, CONVERSIONS))


def blocks(language: str, *, conversions: bool) -> list[tuple[str, str]]:
    """Returns (heading, program) of the blocks in order: of conversions, or of other sections."""
    found = []
    for part in re.split(r"^#+ (?=.*\n\n)", PAGES, flags=re.MULTILINE)[1:]:
        heading = part.splitlines()[0]
        programs = re.findall(rf"^( *)```{language}\n(.*?)^ *```", part, re.DOTALL | re.MULTILINE)
        for indent, program in programs:
            program = re.sub(rf"^{indent}", "", program, flags=re.MULTILINE)
            if ("estimator_spec.convert" in program or "to_config_proto" in program) == conversions:
                found.append((heading, program))
    return found


def test_every_block_is_run_by_a_test():
    """The blocks that the tests below run are all blocks of the pages."""
    num_run = sum(len(blocks("python", conversions=yes)) for yes in (True, False))
    num_run += len(blocks("bash", conversions=False))
    assert num_run == PAGES.count("```") / 2


def test_what_migrate_does_is_not_denied():
    """Each target of `migrate --to` has its column in the guide; "Not yet" names none."""
    from estimator_spec.legacy.migrate import rule

    leaving = GUIDE.partition("### Leaving the Estimator")[2].partition("\n## ")[0]
    not_yet = GUIDE.partition("\n## Not yet\n")[2]
    assert not_yet
    for target in rule.MigrationTarget:
        assert f"`--to {target.value}`" in leaving
        assert target.value not in not_yet
    assert not {"TPUEmbedding", "keras_rs"} & set(re.findall(r"\w+", not_yet))


def test_short_examples_run(monkeypatch):
    """The blocks of Python that show an edit of a program run."""
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")  # restored afterwards
    import tensorflow as tf

    names = {"__name__": "guide", "tf": tf, "FLAGS": SimpleNamespace(use_tpu=False)}
    for heading, program in blocks("python", conversions=False):
        exec(compile(program, heading, "exec"), names)
    assert names["resolver"] is None
    assert names["tpu_columns"].embedding_column


@pytest.mark.slow
def test_commands_run(tmp_path, monkeypatch, capfd):
    """The commands run: installation aside, in a directory with programs of these names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    old = "import tensorflow as tf\nprint('mode', tf.estimator.ModeKeys.TRAIN)\n"
    for name in ("your_program.py", "train.py", "models/model.py"):
        (tmp_path / name).write_text(old)
    program = "import estimator_spec as es\n\nes.Estimator(lambda: None)\n"
    ran = []
    for _, block in blocks("bash", conversions=False):
        if "examples/census" in block:
            continue  # tests/examples/test_census_rewritten.py runs these programs
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            command = words[3] if words[:3] == ["python", "-m", "estimator_spec"] else ""
            ran.append(command)
            if command == "run":
                done = forking_python.run(words[1:], check=True)
                assert done.stdout == "mode train\n"
            elif command == "migrate":
                assert command_line.main(words[3:]) == (0 if "--write" in words else 1)
            elif command == "compare":
                for name in ("old.py", "new.py"):
                    (tmp_path / name).write_text(program)
                assert command_line.main([*words[3:], "--dry-run"]) == 0
            else:
                assert words[:2] == ["pip", "install"]
    assert {"run", "migrate", "compare"} < set(ran)
    assert "estimator_spec.ModeKeys" in (tmp_path / "models" / "model.py").read_text()


@pytest.mark.slow
def test_the_conversions_run_in_order(tools, tmp_path, monkeypatch, capsys):
    """The conversions run in order, with a checkpoint of the old program."""
    tables = {"words": np.random.RandomState(0).normal(size=(1000, 16)).astype(np.float32)}
    written = Path(tools.write_checkpoint(str(tmp_path / "model.ckpt-7"), tables))
    (tmp_path / "model_dir").mkdir()
    for file in written.parent.glob("model.ckpt-7*"):
        shutil.move(file, tmp_path / "model_dir" / file.name)
    (tmp_path / "model_dir" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "guide"}
    ran = []
    for heading, program in blocks("python", conversions=True):
        if "Keras" in heading and importlib.util.find_spec("keras_rs") is None:
            continue
        exec(compile(program, heading, "exec"), names)
        ran.append(heading)
    assert len(ran) >= 3
    assert capsys.readouterr().out
