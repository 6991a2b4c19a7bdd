# SPDX-License-Identifier: Apache-2.0
"""`tpu_columns.shared_state` declares all graph collections and context variables, with users."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DECLARING = "tpu_columns/shared_state.py"
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for package in ("tpu_columns", "estimator_spec")
    for path in sorted((ROOT / package).rglob("*.py"))
}
OF_COLLECTIONS = (
    *("get_collection", "get_collection_ref", "add_to_collection", "add_to_collections"),
    "graph_dict",
)
# Collections that TensorFlow names or the program does: the arguments, by file.
NOT_OURS = {
    "estimator_spec/canned/graph_variables.py": ("kind",),  # TensorFlow's two of variables
    "estimator_spec/canned/saved_model_estimator.py": (
        *("saved_models.TRAIN_OP_COLLECTION", "_MAIN_OP", "name"),  # of SavedModels
    ),
    "estimator_spec/core/driver/saved_models.py": ("TRAIN_OP_COLLECTION",),  # of SavedModels
    "estimator_spec/core/driver/strategy_graphs.py": ("private.GLOBAL_STEP_READ_KEY",),
    "estimator_spec/legacy/contrib/functions.py": ("collection",),  # the program's
    "estimator_spec/core/user_functions/model_spec.py": (
        "collection",
    ),  # TensorFlow's of variables
}


def violations(path: str, source: str) -> list[str]:
    """The collections and context variables of a file that `shared_state` doesn't declare."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or path == DECLARING:
            continue
        called = ast.unparse(node.func).rpartition(".")[2]
        if called == "ContextVar":
            found.append(ast.unparse(node))
        elif called in OF_COLLECTIONS:
            arguments = [*node.args, *(each.value for each in node.keywords)]
            if not any(is_known(path, ast.unparse(each)) for each in arguments):
                found.append(ast.unparse(node))
    return found


def is_known(path: str, argument: str) -> bool:
    """Whether an argument names a public, declared or excepted collection."""
    return argument in NOT_OURS.get(path, ()) or bool(
        re.fullmatch(r"(tf1\.GraphKeys|shared_state)\.\w+", argument)
    )


@pytest.mark.parametrize("path", SOURCES)
def test_no_other_state_is_shared(path):
    """A file uses no graph collection but TensorFlow's and those declared, nor context variable."""
    assert violations(path, SOURCES[path]) == []


@pytest.mark.parametrize(
    "source",
    [
        "A = contextvars.ContextVar('a')",
        "graph.get_collection_ref(('tpu_columns', 'a')).append(1)",
        "tf1.add_to_collection(_A, 1)",
        "found = shared_state.graph_dict(graph, _A)",
    ],
)
def test_other_state_is_found(source):
    """A context variable, and a collection of any form, is found outside of the declarations."""
    assert violations("tpu_columns/tables.py", source)


def declarations() -> dict[str, str]:
    """The sentences beside the declarations, by name."""
    body = ast.parse(SOURCES[DECLARING]).body
    found = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        target = getattr(node, "target", None) or getattr(node, "targets", [None])[0]
        if target is not None and re.match("[A-Z]", target.id):
            assert isinstance(after, ast.Expr), f"{target.id} has no sentence"
            found[target.id] = ast.literal_eval(after.value)
    return found


@pytest.mark.parametrize(("name", "sentences"), declarations().items())
def test_sentences_name_all_users(name, sentences):
    """The sentences beside a declaration name the modules that use it, and no others."""
    users = {
        path.removesuffix(".py").replace("/", ".")
        for path, source in SOURCES.items()
        if re.search(rf"\bshared_state\.{name}\b", source)
    }
    named = set(re.findall(r"`((?:tpu_columns|estimator_spec)\.[\w.]+)`", sentences))
    assert users == named
    assert users
