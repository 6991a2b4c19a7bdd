# SPDX-License-Identifier: Apache-2.0
"""What `help` and the Tab key show of the packages."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re

import pytest

import estimator_spec
import tpu_columns
from estimator_spec.convert import to_keras, to_torch
from estimator_spec.saved_models import read
from public_modules import MODULES
from tpu_columns.folded_signatures import FoldedSignature

SHOWN = {
    "TPUEstimator": estimator_spec.TPUEstimator,
    "RunConfig": estimator_spec.RunConfig,
    "EmbeddingConfigSpec": estimator_spec.EmbeddingConfigSpec,
    "embedding_column": tpu_columns.embedding_column,
    "to_keras": to_keras,
    "to_torch": to_torch,
    "read": read,
}


@pytest.mark.parametrize("name", SHOWN)
def test_signatures_have_an_argument_a_line(name):
    """`help` shows each argument of a long signature on a line of its own."""
    text = pydoc.plain(pydoc.render_doc(SHOWN[name]))
    assert max(map(len, text.splitlines())) < 130
    for argument in inspect.signature(SHOWN[name]).parameters:
        assert re.search(rf"^[ |]*{argument}: ", text, re.MULTILINE), argument


@pytest.mark.parametrize("name", SHOWN)
def test_arguments_are_explained_where_they_are_taken(name):
    """The docstring has each argument, and refers to no other one for it."""
    text = inspect.getdoc(SHOWN[name])
    arguments = text.split("Args:\n")[1].split("\n\n")[0]
    explained = {
        each: rest
        for names, rest in re.findall(r"^ {4}([*\w, ]+): (.*)$", arguments, re.MULTILINE)
        for each in names.split(", ")
    }
    assert set(inspect.signature(SHOWN[name]).parameters) <= set(explained)
    assert not [each for each, rest in explained.items() if rest.startswith("as for")]


@pytest.mark.parametrize("package", MODULES)
def test_dir_has_public_names_only(package):
    """The Tab key finds a package's public names, and modules that programs use, and no others."""
    module = importlib.import_module(package)
    names = [name for name in dir(module) if not re.fullmatch("__.*__", name)]
    assert {*module.__all__} <= {*names}
    others = {*names} - {*module.__all__}
    assert {f"{package}.{name}" for name in others} <= {*MODULES, "estimator_spec.tpu"}


def test_packages_have_a_version():
    """Both packages have the version of the distribution."""
    assert estimator_spec.__version__ == tpu_columns.__version__


def test_a_subclass_has_its_own_signature():
    """A subclass that takes other arguments shows those."""

    class Short(estimator_spec.TPUEstimator):
        def __init__(self, model_dir):
            """Takes one argument."""

    assert list(inspect.signature(Short).parameters) == ["model_dir"]


def test_folded_signatures_keep_kinds():
    """A folded signature has the marks of positional and keyword arguments, and stays equal."""

    def several(
        first: int, /, second: list[str] | None = None, *rest: int, name: str = "", **others: int
    ) -> dict[str, int]:
        raise NotImplementedError

    def keywords(first: str, *, a_long_keyword: str = "something long", another: int = 0) -> None:
        raise NotImplementedError

    folded = FoldedSignature.from_callable(several)
    assert folded == inspect.signature(several)
    assert [line.strip() for line in str(folded).splitlines()[1:4]] == [
        "first: int,",
        "/,",
        "second: list[str] | None = None,",
    ]
    assert "\n    *,\n    a_long_keyword" in str(FoldedSignature.from_callable(keywords))
