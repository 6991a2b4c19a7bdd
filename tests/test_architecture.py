# SPDX-License-Identifier: Apache-2.0
"""The invariants of docs/architecture.md, checked on the source: imports and private names."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from products import CORE_TESTS, TESTS_WITH_PRODUCTS, TOP, read_products

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tpu_columns", "estimator_spec")
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
OPTIONAL = (
    *("keras", "tf_keras", "keras_rs", "tensorflow_recommenders", "pandas", "jax", "rich"),
    *("nbformat", "ydf"),
)
# Folders whose modules are imported at their first use, and may import optional dependencies.
LATE = ("convert/keras_columns/keras_classes",)
LATE_MODULES = tuple(f"estimator_spec.{part.replace('/', '.')}" for part in LATE)
# Folders that work on specs and files alone: they must run where no model can.
WITHOUT_DRIVER = ("convert", "checkpoints", "planning", "heads", "compare", "legacy/doctor")
DRIVES_PROGRAMS = ("convert/keras_program", "convert/torch_program")
# Commands that start without it.
WITHOUT_TENSORFLOW = ("legacy/migrate",)

# The private names of TensorFlow that each adapter uses, and why no public name serves: modules and
# their contents by full name, attributes of objects as `._name`. A name that isn't here fails
# `test_no_invariant_is_broken`; one that is no longer used fails `test_every_known_name_is_used`.
_COLUMN_CLASS = "only functions that return the class are public"
_COLLECTIVES = "what starts the collectives of a replica has no public name"
_GRAPH = "no public method changes a graph"
_CORE = "TPUEmbedding's public methods work in eager mode only"
_OBJECT = "our subclass trains the object's tables, for which it has no public names"
_KERAS = "Keras exports its functions for estimators as __internal__"
_V1_COLUMN = "TF1's feature-column protocol was never exported"
_V1 = "tensorflow.python.feature_column.feature_column."
_V2 = "tensorflow.python.feature_column.feature_column_v2."
_INTERNAL = "tf.__internal__.feature_column."
KNOWN_PRIVATE = {
    "tpu_columns/_tensorflow.py": {
        _V1 + "_DenseColumn": _V1_COLUMN,
        _V1 + "_LazyBuilder": _V1_COLUMN,
        _V1 + "_SequenceDenseColumn": _V1_COLUMN,
        _V2 + "BucketizedColumn": _COLUMN_CLASS,
        _V2 + "CategoricalColumn": _COLUMN_CLASS,
        _V2 + "CrossedColumn": _COLUMN_CLASS,
        _V2 + "EmbeddingColumn": "its class' config, in models that have columns of both kinds",
        _V2 + "HashedCategoricalColumn": _COLUMN_CLASS,
        _V2 + "IdentityCategoricalColumn": _COLUMN_CLASS,
        _V2 + "NumericColumn": _COLUMN_CLASS,
        _V2 + "SequenceCategoricalColumn": _COLUMN_CLASS,
        _V2 + "VocabularyFileCategoricalColumn": _COLUMN_CLASS,
        _V2 + "VocabularyListCategoricalColumn": _COLUMN_CLASS,
        _V2 + "WeightedCategoricalColumn": _COLUMN_CLASS,
        "tensorflow.python.eager.tape.variable_accessed": (
            "without it a GradientTape finds no gradient of an op that reads a variable's handle"
        ),
        "tensorflow.python.feature_column.serialization.register_feature_column": (
            "without it DenseFeatures.from_config can't restore our columns"
        ),
        _INTERNAL + "DenseColumn": "exported for the Keras outside of TensorFlow only",
        _INTERNAL + "SequenceDenseColumn": "exported for the Keras outside of TensorFlow only",
        _INTERNAL + "deserialize_feature_column": "exported for the Keras outside of TensorFlow",
        _INTERNAL + "serialize_feature_column": "exported for the Keras outside of TensorFlow",
        "._get_control_flow_context": "no public name tells that a graph of TF1 is in a condition",
        "._features": "TensorFlow's transformation caches refuse ragged features",
        "._get_dense_tensor": _V1_COLUMN,
        "._get_sequence_dense_tensor": _V1_COLUMN,
        "._var_scope_name": _V1_COLUMN,
        "._variable_shape": _V1_COLUMN,
    },
    "estimator_spec/core/_tensorflow/private.py": {
        _V1 + "_FeatureColumn": _COLUMN_CLASS,
        _V1 + "_SharedEmbeddingColumn": _COLUMN_CLASS,
        _V2 + "CategoricalColumn": _COLUMN_CLASS,
        _V2 + "EmbeddingColumn": _COLUMN_CLASS,
        _V2 + "NumericColumn": _COLUMN_CLASS,
        _V2 + "SharedEmbeddingColumn": _COLUMN_CLASS,
        "tensorflow.python.framework.op_def_registry": "tf.raw_ops lacks ops without a function",
        "tensorflow.core.protobuf.saved_model_pb2": "no public module has the message",
        "tensorflow.core.protobuf.tensor_bundle_pb2": "no public module has the messages",
        "tensorflow.core.protobuf.tpu.optimization_parameters_pb2": "as above",
        "tensorflow.core.protobuf.tpu.tpu_embedding_configuration_pb2": "as above",
        "tensorflow.python.checkpoint.graph_view": "the saver of a Scaffold's tf.train.Checkpoint",
        "tensorflow.python.eager.backprop": "functions of tensorflow.contrib.eager",
        "tensorflow.python.eager.context": "no public name switches eager mode on again",
        "tensorflow.python.ops.lookup_ops": "the id tables of tensorflow.contrib.lookup",
        "tensorflow.python.ops.summary_ops_v2": "the signatures of tensorflow.contrib.summary",
        "tensorflow.python.ops.variable_scope": "the variable store of tensorflow.contrib.eager",
        "tensorflow.python.ops.while_v2": "tf.while_loop chooses by a switch of all threads",
        "tensorflow.python.saved_model.save_context": "a SavedModel can't have a step's queues",
        "tensorflow.python.saved_model.loader_impl": "the public loader replaces no inputs",
        "tensorflow.python.saved_model.model_utils": "names of the Estimator's export modules",
        "tensorflow.python.trackable.autotrackable": "objects of tensorflow.contrib.eager",
        "tensorflow.python.tpu._pywrap_sparse_core_layout": "a C++ class without a public name",
        "tensorflow.python.tpu.tpu_function": "how many replicas a computation is built for",
        "tensorflow.python.tpu.training_loop": "the loops of tensorflow.contrib.tpu",
        "tensorflow.python.training.saving.saveable_object": "what savers save beside variables",
        "tensorflow.python.training.saving.saveable_object_util": (
            "the names that savers give to parts of variables"
        ),
        "tensorflow.python.training.training_util.GLOBAL_STEP_READ_KEY": (
            "the read of a strategy's step must not have its initial value's collective"
        ),
        "tensorflow.python.training.training_util._get_or_create_global_step_read": (
            "op seeds depend on when it is created"
        ),
        _INTERNAL + "DenseColumn": "exported for the Keras outside of TensorFlow only",
        _INTERNAL + "FeatureTransformationCache": "exported for the Keras outside of TensorFlow",
        "._decayed_lr": "the only rate of tf_keras' legacy optimizers in this step",
        "._distribution_strategy_stack": "which strategy a graph has in a replica's thread",
        "._learning_rate": "tf_keras' public property holds the last step's rate of a schedule",
        "._listeners": "the hook may be the user's, made without the listeners of tables",
        "._scale_loss_for_estimator": "no public name; legacy Estimators ran within it",
        "._tfll_initialized": "whether the lazy tf.keras is loaded; to ask it would load it",
        "._table": "the vocabulary file behind a table with hash buckets",
        "._variable_creator_stack": "as _distribution_strategy_stack",
    },
    "estimator_spec/core/_tensorflow/collectives.py": {
        "._collective_keys": _COLLECTIVES,
        "._cross_device_ops": _COLLECTIVES,
        "._device": _COLLECTIVES,
        "._group_key": _COLLECTIVES,
        "._group_size": _COLLECTIVES,
        "._launchers": _COLLECTIVES,
        "._options": _COLLECTIVES,
    },
    "estimator_spec/core/_tensorflow/cross_shard.py": {
        "._last_loss_reduction": "CrossShardOptimizer divides the loss itself",
        "._opt": "the wrapped optimizer has no public name",
        "._reduction": "mean or sum of the replicas' losses, without a public name",
    },
    "estimator_spec/core/_tensorflow/graph_surgery.py": {
        "._add_control_input": _GRAPH,
        "._add_control_inputs": _GRAPH,
        "._control_outputs": "the ops that wait for an op have no public name",
        "._get_control_flow_context": "op.control_flow_context isn't public either",
        "._remove_all_control_inputs": _GRAPH,
        "._update_input": _GRAPH,
    },
    "estimator_spec/core/_tensorflow/keras_models.py": {
        "package.__internal__.models.clone_and_build_model": _KERAS,
        "package.__internal__.models.in_place_subclassed_model_state_restoration": _KERAS,
        "package.__internal__.optimizers.convert_to_legacy_optimizer": _KERAS,
        "._compile_weights_loss_and_weighted_metrics": "`compile` takes no weights of examples",
        "._get_compile_args": "the public configuration is serialized, without functions",
        "._is_graph_network": "which models have names for inputs has no public name",
        "._make_train_function": "the ops of a training step have no public name",
    },
    "estimator_spec/core/_tensorflow/tpu_embedding.py": {
        "._add_variable_with_custom_getter": "no public method takes a name with slashes",
        "._built": _CORE,
        "._config_proto": _CORE,
        "._create_config_proto": _CORE,
        "._create_slots": _OBJECT,
        "._get_and_update_output_shapes_from_input": _CORE,
        "._hosts": _CORE,
        "._load": _CORE,
        "._preprocess_features": "TensorFlow's method, before it was public",
        "._retrieve": _CORE,
        "._slot_names": _CORE,
        "._table_config": _CORE,
        "._using_tpu": _OBJECT,
        "._variables": "the public embedding_tables has the tables without their slots",
    },
    "estimator_spec/convert/torch_columns/files/optimizers.py": {
        "._indices": "as _values",
        "._values": "torch's public method adds up what is clipped first",
    },
}
ADAPTERS = tuple(KNOWN_PRIVATE)
# Documented members of named tuples.
PUBLIC = ("_asdict", "_field_defaults", "_fields", "_make", "_replace", "_exit")


def imported(node: ast.AST, package: str) -> list[str]:
    """The modules that one node imports, relative ones made absolute."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, base]).rstrip(".")
        return [base, *(f"{base}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        value = node.args[0].value
        if name in ("import_module", "__import__") and isinstance(value, str):
            return [value]
    return []


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: function bodies and TYPE_CHECKING don't."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from at_import(node)


def imports(path: str, source: str, everywhere: bool = True) -> set[str]:
    """All modules that a file imports, or only those of its import time."""
    tree = ast.parse(source)
    nodes = ast.walk(tree) if everywhere else at_import(tree)
    package = path.rsplit("/", 1)[0].replace("/", ".")
    return {name for node in nodes for name in imported(node, package)}


def within(name: str, *roots: str) -> bool:
    """Whether a module is one of `roots` or inside one."""
    return any(name == root or name.startswith(root + ".") for root in roots)


PRIVATE_PACKAGES = ("tensorflow.python", "tensorflow.core", "tensorflow._api")


def private_modules(tree: ast.AST, path: str, package: str) -> Iterator[str]:
    """Private modules of TensorFlow, or names in them, that a file imports or reaches by `tf`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = imported(node, package)
            names = names[1:]  # without the module itself
        elif isinstance(node, ast.Attribute):
            names = [re.sub(r"^tf\.", "tensorflow.", ast.unparse(node))]
            if ".__internal__." in names[0] and names[0].count(".") == 3:
                yield names[0].replace("tensorflow.", "tf.", 1)
        elif isinstance(node, (ast.Subscript, ast.Call)) and "sys.modules" in ast.unparse(node):
            key = (
                node.slice if isinstance(node, ast.Subscript) else [*node.args, ast.Constant("")][0]
            )
            names = [start_of_string(key)]
        elif path in ADAPTERS and isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if re.fullmatch(r"tensorflow\.[\w.]+", node.value) else []
        else:
            names = imported(node, package)
        yield from (name for name in names if within(name, *PRIVATE_PACKAGES))


def private_attributes(tree: ast.AST) -> Iterator[str]:
    """Names with one leading underscore of objects other than `self`, `cls` and `os`."""
    for node in ast.walk(tree):
        name, owner = "", None
        if isinstance(node, ast.Attribute):
            name, owner = node.attr, node.value
        elif (found := named_by_string(node)) is not None:
            owner, name = found
        if not re.match("_[^_]", name) or name in PUBLIC:
            continue
        if isinstance(owner, ast.Call) and getattr(owner.func, "id", "") in ("super", "type"):
            continue
        if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls", "os")):
            yield name


def named_by_string(node: ast.AST) -> tuple[ast.expr, str] | None:
    """The object and the name of an attribute that is read by a string, or the start of the name.

    Such are `getattr(x, "_n")`, `getattr(x, f"_{n}")`, `vars(x)["_n"]` and `x.__dict__.get("_n")`.
    """
    if isinstance(node, ast.Subscript):
        place, key = node.value, node.slice
    elif isinstance(node, ast.Call) and node.args:
        if getattr(node.func, "id", "") in ("getattr", "setattr", "hasattr", "delattr"):
            return (node.args[0], start_of_string(node.args[1])) if len(node.args) > 1 else None
        if not isinstance(node.func, ast.Attribute):
            return None
        place, key = node.func.value, node.args[0]
    else:
        return None
    if isinstance(place, ast.Call) and getattr(place.func, "id", "") == "vars" and place.args:
        return place.args[0], start_of_string(key)
    if isinstance(place, ast.Attribute) and place.attr == "__dict__":
        return place.value, start_of_string(key)
    return None


def start_of_string(node: ast.expr) -> str:
    """The constant that a string begins with; "_?" for `f"_{n}"` and for `"_" + n`."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr) and node.values:
        first = node.values[0]
        return f"{start_of_string(first)}?" if isinstance(first, ast.Constant) else ""
    return f"{start_of_string(node.left)}?" if isinstance(node, ast.BinOp) else ""


def own_attributes(tree: ast.AST) -> Iterator[str]:
    """Names of the private methods and attributes that the classes of a file define."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield child.name
                elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
                    yield child.target.id
                elif isinstance(child, ast.Assign):
                    yield from (t.id for t in child.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from [node.attr] if ast.unparse(node.value) == "self" else []


def folder(path: str) -> str:
    """The folder of a file."""
    return path.rsplit("/", 1)[0]


# Folders in which a file may use the private members of another's classes. Elsewhere no file does:
# what the parts of an `Estimator` need, for example, is a `RunSetup`.
FRIENDS = {
    "tpu_columns": "columns have members for feature layers, beside the names of TensorFlow's",
    "estimator_spec/heads": "programs subclass heads, whose attributes descriptions read",
    "estimator_spec/core/run_config": "programs copy TensorFlow's class with its attributes",
}
OWN = {
    place: {
        name
        for path, source in SOURCES.items()
        if folder(path) == place
        for name in own_attributes(ast.parse(source))
    }
    for place in FRIENDS
}


def private_names(path: str, source: str) -> set[str]:
    """The private names of TensorFlow that a file uses, as `KNOWN_PRIVATE` has them.

    An attribute is taken for TensorFlow's unless a class in the same file, or one of a folder of
    `FRIENDS`, defines it.
    """
    tree = ast.parse(source)
    own = set(own_attributes(tree))
    if path not in ADAPTERS:
        own |= OWN.get(folder(path), set())
    attributes = {f".{name}" for name in private_attributes(tree) if name not in own}
    return attributes | set(private_modules(tree, path, folder(path).replace("/", ".")))


def in_part(path: str, parts: tuple[str, ...]) -> bool:
    """Whether a file is one of the modules, or in one of the folders, of a package."""
    place = path.partition("/")[2].removesuffix(".py") + "/"
    return place.startswith(tuple(f"{part}/" for part in parts))


PRODUCTS = read_products()


def product_of(path: str) -> str:
    """The product that a file or module of `estimator_spec` belongs to, 'core', or ''."""
    place = path.partition("/")[2].removesuffix(".py") + "/"
    found = [name for name in (*PRODUCTS, "core") if place.startswith(f"{name}/")]
    return max(found, key=len, default="") if path.startswith("estimator_spec/") else ""


def broken_invariants(path: str, source: str) -> list[str]:
    """The invariants that a file breaks."""
    everywhere = imports(path, source)
    broken = []
    if path.startswith("tpu_columns/") and any(within(n, "estimator_spec") for n in everywhere):
        broken.append("tpu_columns must not import estimator_spec")
    unknown = private_names(path, source) - set(KNOWN_PRIVATE.get(path, ()))
    if unknown:
        broken.append(f"private names, of TensorFlow or of another file: {sorted(unknown)}")
    at_once = imports(path, source, everywhere=False)
    if not in_part(path, LATE) and any(within(n, *OPTIONAL, *LATE_MODULES) for n in at_once):
        broken.append("importing a package must not import an optional dependency")
    home = product_of(path)
    allowed = PRODUCTS.get(home, set()) | {home, "core"}
    foreign = {product_of(name.replace(".", "/")) for name in everywhere} - allowed - {""}
    if path.startswith("estimator_spec/") and home and foreign:
        broken.append(f"{home} imports {sorted(foreign)}: see the table in docs/architecture.md")
    driver = "estimator_spec.core.driver"
    alone = in_part(path, WITHOUT_DRIVER) and not in_part(path, DRIVES_PROGRAMS)
    if alone and any(within(n, driver) for n in everywhere):
        broken.append(f"{', '.join(WITHOUT_DRIVER)} must not import driver")
    if in_part(path, WITHOUT_TENSORFLOW) and any(within(n, "tensorflow") for n in everywhere):
        broken.append(f"{', '.join(WITHOUT_TENSORFLOW)} must not import TensorFlow")
    return broken


@pytest.mark.parametrize("path", SOURCES)
def test_no_invariant_is_broken(path):
    """Each file of both packages keeps every invariant."""
    assert broken_invariants(path, SOURCES[path]) == []


def home_of(module: str) -> str:
    """The folder that a module counts for: a product, or a folder of the core."""
    if module.startswith("estimator_spec.core."):
        return ".".join(module.split(".")[:3])
    product = product_of(module.replace(".", "/")).replace("/", ".")
    return f"estimator_spec.{product}" if product else ".".join(module.split(".")[:2])


def import_cycle(sources: dict[str, str]) -> list[str]:
    """Returns the modules of an import cycle between files, or between folders; [] without one.

    A package's `__init__` re-exports names of its modules, so it counts for folders only.
    """
    modules = {path.removesuffix(".py").replace("/", "."): path for path in sources}
    files: dict[str, set[str]] = {}
    folders: dict[str, set[str]] = {}
    for module, path in modules.items():
        used = {name for name in imports(path, sources[path]) if name in modules} - {module}
        above = {f"{name}.__init__" for name in imports(path, sources[path])} & set(modules)
        if not module.endswith("__init__"):
            files[module] = used
        if module.count(".") > 1:
            home = home_of(module)
            inside = {home_of(name) for name in used | above}
            folders.setdefault(home, set()).update(
                name for name in inside - {home} if f"{name}.__init__" in modules
            )
    for graph in (files, folders):
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            return list(error.args[1])
    return []


@pytest.mark.parametrize("name", sorted(PRODUCTS))
def test_every_arrow_is_used(name):
    """The table of products has no arrow that no file needs."""
    files = {path: source for path, source in SOURCES.items() if product_of(path) == name}
    used = {
        product_of(imported_one.replace(".", "/"))
        for path, source in files.items()
        for imported_one in imports(path, source)
    }
    assert files
    assert PRODUCTS[name] <= used


def test_tests_of_the_core_need_no_product():
    """Only those of the core's tests import products that `nox -s core` leaves out."""
    files = [path for folder in CORE_TESTS for path in (ROOT / folder).rglob("*.py")]
    files += (ROOT / "tests").rglob("conftest.py")
    products = set(PRODUCTS) - set(TOP)
    found = {}
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        used = {
            product_of(each.replace(".", "/")) for each in imports(name, path.read_text("utf-8"))
        }
        if used & products and product_of(name.removeprefix("tests/")) not in products:
            found[name] = used & products
    assert set(found) <= TESTS_WITH_PRODUCTS, found


def test_the_top_is_short():
    """The package has at most sixteen modules and folders, which its docstring lists."""
    entries = {path.split("/")[1] for path in SOURCES if path.startswith("estimator_spec/")}
    assert len(entries) <= 16
    listed = re.findall(r"^    ([\w.]+)/? ", SOURCES["estimator_spec/__init__.py"], re.MULTILINE)
    assert sorted(listed[: len(entries) - 1]) == sorted(entries - {"__init__.py"})


def test_no_import_cycles():
    """Neither files nor folders import each other in a circle, even inside of functions."""
    assert import_cycle(SOURCES) == []


@pytest.mark.parametrize(
    "sources",
    [
        {
            "estimator_spec/a/x.py": "from estimator_spec.a import y",
            "estimator_spec/a/y.py": "def f():\n    import estimator_spec.a.x",
        },
        {
            "estimator_spec/a/__init__.py": "",
            "estimator_spec/b/__init__.py": "",
            "estimator_spec/a/x.py": "from estimator_spec.b import x",
            "estimator_spec/b/x.py": "",
            "estimator_spec/b/y.py": "from estimator_spec.a.x import f",
        },
    ],
    ids=["files", "folders"],
)
def test_an_import_cycle_is_found(sources):
    """The check sees cycles of files, inside of functions too, and cycles of folders."""
    assert import_cycle(sources)


@pytest.mark.parametrize("path", ADAPTERS)
def test_every_known_name_is_used(path):
    """The list of private names has no entry that its adapter doesn't use, and gives reasons."""
    assert set(KNOWN_PRIVATE[path]) == private_names(path, SOURCES[path])
    assert all(KNOWN_PRIVATE[path].values())


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tpu_columns/lookup.py", "import estimator_spec"),
        ("tpu_columns/lookup.py", "def f():\n    from estimator_spec import spec"),
        ("estimator_spec/core/embedding/spec.py", "from tensorflow.python.ops import array_ops"),
        ("estimator_spec/core/embedding/spec.py", "from tensorflow import python"),
        (
            "estimator_spec/core/embedding/spec.py",
            "importlib.import_module('tensorflow.python.tpu')",
        ),
        ("tpu_columns/lookup.py", "try:\n    import keras_rs\nexcept ImportError:\n    pass"),
        ("estimator_spec/core/embedding/spec.py", "class A:\n    import pandas"),
        ("estimator_spec/planning.py", "from estimator_spec.core.driver import training"),
        ("estimator_spec/planning/plan.py", "from estimator_spec.core.driver import training"),
        ("estimator_spec/legacy/doctor/cli.py", "from estimator_spec.core.driver import training"),
        ("estimator_spec/convert/keras_rs.py", "from ..core.driver import training"),
        ("estimator_spec/convert/keras_rs.py", "from estimator_spec.core import driver"),
        ("estimator_spec/core/driver/hooks.py", "def f():\n    from estimator_spec import convert"),
        ("estimator_spec/core/driver/hooks.py", "import_module('estimator_spec.legacy.contrib')"),
        ("estimator_spec/heads/base.py", "import estimator_spec.canned"),
        ("estimator_spec/legacy/run.py", "from estimator_spec.legacy import contrib"),
        ("estimator_spec/heads/base.py", "import estimator_spec.core.driver"),
        ("estimator_spec/legacy/migrate/names.py", "def f():\n    import tensorflow as tf"),
        ("estimator_spec/core/driver/hooks.py", "from tensorflow.core.protobuf import saver_pb2"),
        ("estimator_spec/core/driver/hooks.py", "f = tf.__internal__.tracking.AutoTrackable"),
        ("estimator_spec/core/driver/hooks.py", "f = tf.python.ops"),
        ("estimator_spec/core/driver/hooks.py", "saver._var_list = []"),
        ("estimator_spec/core/driver/hooks.py", "f = getattr(tf.constant(1), '_op', None)"),
        ("estimator_spec/core/driver/hooks.py", "f = self.saver._var_list"),
        (
            "estimator_spec/core/driver/hooks.py",
            "spec = estimator._call_model_fn(None, None, mode, c)",
        ),
        ("estimator_spec/core/driver/hooks.py", "f = getattr(b, f'_{n}')"),
        ("estimator_spec/core/driver/hooks.py", "f = getattr(b, '_' + n)"),
        ("estimator_spec/core/driver/hooks.py", "f = vars(b)['_n']"),
        ("estimator_spec/core/driver/hooks.py", "f = vars(b).get('_n')"),
        ("estimator_spec/core/driver/hooks.py", "f = b.__dict__['_n']"),
        ("estimator_spec/core/driver/hooks.py", "f = sys.modules['tensorflow.python.tpu']"),
        ("estimator_spec/core/driver/hooks.py", "f = sys.modules.get('tensorflow.python.tpu')"),
        ("estimator_spec/core/driver/hooks.py", "import tensorflow._api.v2"),
        ("estimator_spec/core/_tensorflow/private.py", "def f(op):\n    op._set_attr('a', None)"),
        ("estimator_spec/core/_tensorflow/private.py", "from tensorflow.python.tpu import tpu"),
        ("estimator_spec/core/_tensorflow/private.py", "M = {'a': 'tensorflow.python.tpu.tpu'}"),
        ("estimator_spec/core/_tensorflow/private.py", "f = tf.__internal__.tf2.enabled"),
    ],
)
def test_a_broken_invariant_is_found(path, source):
    """Each kind of forbidden import and private name is found, also inside functions."""
    assert len(broken_invariants(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("estimator_spec/core/embedding/spec.py", "import tpu_columns"),
        (
            "tpu_columns/_tensorflow.py",
            "from tensorflow.python.feature_column.feature_column import _DenseColumn",
        ),
        ("estimator_spec/core/embedding/spec.py", "def f():\n    import pandas"),
        ("estimator_spec/core/embedding/spec.py", "if TYPE_CHECKING:\n    import keras_rs"),
        ("estimator_spec/core/driver/training.py", "from estimator_spec.core.driver import hooks"),
        ("estimator_spec/core/driver/training.py", "spec = spec._replace(loss=None)"),
        ("estimator_spec/core/driver/training.py", "class A:\n    _a = 1\nb = A()._a"),
        ("estimator_spec/core/_tensorflow/graph_surgery.py", "op._update_input(0, value)"),
    ],
)
def test_what_is_allowed_is_accepted(path, source):
    """Allowed imports and private names are accepted."""
    assert broken_invariants(path, source) == []


def test_one_file_calls_the_ops():
    """Only `kernels/calls.py` calls an op of ours."""
    callers = {path for path, text in SOURCES.items() if re.search(r"\.tpu_columns_[a-z]", text)}
    assert callers == {"tpu_columns/kernels/calls.py"}


@pytest.mark.parametrize("path", ADAPTERS[:2])
def test_private_imports_say_why(path):
    """In the adapters, a comment gives the reason of every import of a private module."""
    lines = [line.strip() for line in SOURCES[path].splitlines()]
    pattern = re.compile(r'from tensorflow\.(python|core)|"\w+": (\($|"tensorflow\.)')
    private = [n for n, line in enumerate(lines) if pattern.match(line)]
    assert private
    for number in private:
        above = number - 1
        # The sorter of imports puts names of one module into blocks of their own.
        while above > 0 and lines[above] and not lines[above].startswith("#"):
            above -= 1
        assert lines[above].startswith("#"), lines[number]
