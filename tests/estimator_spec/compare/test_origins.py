# SPDX-License-Identifier: Apache-2.0
"""A comparison is refused if a program imports the other one's modules in place of its own."""

from __future__ import annotations

import sys

import pytest

import forking_python
from estimator_spec.compare import Program, ProgramError, cli
from estimator_spec.compare.origins import Trees

TASK = """\
import tensorflow as tf
from trainer import model
from common import util

data = lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0]))
print(tf.estimator.Estimator(model.model_fn).evaluate(data))
"""
MODEL = """\
import tensorflow as tf

def model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features["x"]))
"""


@pytest.fixture
def trees(tmp_path):
    """Returns two directories with the same package, one in the other."""
    for tree in (tmp_path, tmp_path / "new"):
        (tree / "trainer").mkdir(parents=True)
        (tree / "common").mkdir()
        (tree / "trainer" / "task.py").write_text(TASK)
        (tree / "trainer" / "model.py").write_text(MODEL)
        (tree / "common" / "util.py").write_text("")
    return tmp_path, tmp_path / "new"


def programs(trees, **options):
    """Returns the scripts of both trees."""
    return [Program(str(tree / "trainer" / "task.py"), **options) for tree in trees]


def test_the_old_tree_on_pythonpath(trees):
    """With PYTHONPATH at the old tree the new program is refused, before anything runs."""
    old, new = trees
    both = programs(trees, python_path=str(old))
    with pytest.raises(ProgramError, match=r"new program, .*model\.py from .*not its own .*/new/"):
        Trees(*both).check_sources()
    each = [
        Program(one.script, python_path=str(tree)) for one, tree in zip(both, trees, strict=True)
    ]
    Trees(*each).check_sources()
    with pytest.raises(ProgramError, match="old program"):
        Trees(each[1], each[0], [str(new)]).check_sources()
    assert old != new


def test_modules_of_two_directories(trees):
    """`-m` finds each side's modules in its own directory; an excluded one is refused."""
    both = [Program("trainer.task", directory=str(tree)) for tree in trees]
    Trees(*both).check_sources()
    with pytest.raises(ProgramError, match="old program"):
        Trees(*both, never_from=[str(trees[0])]).check_sources()


def test_what_belongs_to_whom(trees):
    """A module is wrong if the own tree has it, too; a file of neither tree is shared."""
    old, new = map(str, trees)
    checked = Trees(*programs(trees))
    checked.check("old", {"trainer.model": f"{old}/trainer/model.py"})
    checked.check("new", {"trainer.model": f"{new}/trainer/model.py"})
    checked.check("new", {"data": f"{old}/data.py"})
    with pytest.raises(ProgramError, match="common.util from"):
        checked.check("new", {"common.util": f"{old}/common/util.py"})
    with pytest.raises(ProgramError, match="common.util from"):
        checked.check("old", {"common.util": f"{new}/common/util.py"})
    (note,) = checked.shared({"a": "/x/a.py"}, {"a": "/x/a.py", "b": "/x/b.py"})
    assert note.endswith("a (/x/a.py).")
    assert checked.shared({"a": "/x/a.py"}, {"a": "/y/a.py"}) == ()
    same = Trees(*[Program(f"{old}/{name}.py") for name in ("one", "two")])
    same.check("new", {"trainer.model": f"{new}/trainer/model.py"})


@pytest.mark.slow
def test_modules_that_a_program_loaded(trees, monkeypatch, capsys):
    """`compare -m` runs the module of both trees, and refuses what one loaded from the other."""
    monkeypatch.setattr(sys, "executable", forking_python.stand_in())
    old, new = trees
    task = new / "trainer" / "task.py"
    task.write_text(f"import sys\nsys.path.insert(0, {str(old)!r})\n{TASK}")
    assert cli.main(["-m", "trainer.task", str(old), str(new)]) == 2
    error = capsys.readouterr().err
    assert "The new program" in error
    assert f"common.util from {old}/common/util.py, not its own {new}/" in error
