# SPDX-License-Identifier: Apache-2.0
"""Repaired SavedModels of TensorFlow 1.15.5 and 2.8.4 compute what those computed.

`tests/data/make_dead_ops.py` recorded the models and their outputs.
"""

import filecmp
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import make_boosted_trees
from estimator_spec.__main__ import main
from estimator_spec.core._tensorflow import private
from estimator_spec.saved_models import files
from estimator_spec.saved_models.dead_ops import repair, rewriting, verdicts
from estimator_spec.saved_models.dead_ops.names import NAMES
from estimator_spec.saved_models.dead_ops.rules import RULES

DATA = pathlib.Path(__file__).parents[2] / "data"
BARE = pathlib.Path(__file__).with_name("bare_process.py")
MODELS = {
    "/".join(path.parts[-2:]): path
    for path in sorted(path.parent for path in DATA.glob("dead_ops/*/*/saved_model.pb"))
}
# Each has the ops of another one.
AT_NIGHT = {
    *("tf1.15.5/contrib_float64", "tf1.15.5/contrib_int32", "tf2.8.4/bucketize", "tf2.8.4/sums"),
    *("tf2.8.4/tpu", "tf2.8.4/trees_binary", "tf2.8.4/trees_pairs"),
}
# Those that are run as they were, too.
OLD = ("tf1.15.5/contrib_int64", "tf2.8.4/bucketize_functions")
KEYS = [
    pytest.param(key, marks=pytest.mark.nightly("others have its ops")) if key in AT_NIGHT else key
    for key in MODELS
]


def recordings(key):
    """Returns a model's signature, feeds, and the recorded outputs for each feed."""
    version, name = key.split("/")
    if not name.startswith("trees_"):
        file = DATA / "dead_ops" / version / "expected.json"
        feeds, outputs = zip(*json.loads(file.read_text())[name], strict=True)
        return "serving_default", list(feeds), list(outputs)
    file = DATA / "boosted_trees" / version / "expected.json"
    outputs = json.loads(file.read_text())[name.removeprefix("trees_")]["exported"]
    features = make_boosted_trees.to_json(make_boosted_trees.make_features(8, seed=1))
    signature = "predict"
    with_inputs = files.load(MODELS[key]).meta_graph().signature_def[signature].inputs
    return signature, [{key: features[key] for key in with_inputs}], [outputs[signature]]


def run_bare(jobs):
    """Runs models in a process that hasn't this project."""
    command = [sys.executable, "-I", str(BARE)]
    done = subprocess.run(command, input=json.dumps(jobs), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found["own"]
    return found["results"]


@pytest.fixture(scope="module")
def repaired(request, tmp_path_factory):
    """Directories of the repaired models, by name, that the chosen tests are of."""
    folder = tmp_path_factory.mktemp("repaired")
    chosen = [getattr(item, "callspec", None) for item in request.session.items]
    keys = {each.params.get("key") for each in chosen if each is not None}
    paths = {key: folder / key.replace("/", "_") for key in MODELS if key in keys}
    for key, path in paths.items():
        nodes = repair.repair(MODELS[key], path)
        assert nodes and not [node for node in nodes if node.refusal]
    return paths


@pytest.fixture(scope="module")
def outputs(repaired):
    """Outputs of the repaired models, and of two as they were, in a bare process."""
    jobs = []
    for key, path in repaired.items():
        signature, feeds, _ = recordings(key)
        tags = ["serve", "tpu"] if key.endswith("/tpu") else ["serve"]
        jobs.append({"path": str(path), "tags": tags, "signature": signature, "feeds": feeds})
    olds = [key for key in OLD if key in repaired]
    old_jobs = [{**jobs[list(repaired).index(key)], "path": str(MODELS[key])} for key in olds]
    results = run_bare([*jobs, *old_jobs])
    return dict(zip([*repaired, *(f"old {key}" for key in olds)], results, strict=True))


@pytest.mark.parametrize("loader", ["session", "function"])
@pytest.mark.parametrize("key", KEYS)
def test_a_repaired_model_computes_what_the_old_one_did(key, loader, outputs):
    """Every output equals the recorded one, in plain TensorFlow, for odd and empty inputs, too."""
    _, _, expected = recordings(key)
    found = outputs[key][loader]
    assert not isinstance(found, str), found
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        assert got.keys() == wanted.keys()
        for name, value in wanted.items():
            got_value, value = np.array(got[name]), np.array(value)
            assert got_value.size == value.size, name
            if value.dtype.kind in "fc":
                np.testing.assert_allclose(got_value, value, rtol=1e-6, atol=1e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(got_value, value, err_msg=name)


@pytest.mark.parametrize("key", OLD)
def test_the_old_models_do_not_run(key, outputs):
    """The models that are repaired are ones that today's TensorFlow refuses."""
    for loader in ("session", "function"):
        assert isinstance(outputs[f"old {key}"][loader], str)


@pytest.mark.parametrize("key", KEYS)
def test_all_but_the_graph_is_as_it_was(key, repaired):
    """Other files are equal byte for byte; so are signatures, assets, savers, objects and names."""
    old, new = MODELS[key], repaired[key]
    old_files = {path.relative_to(old) for path in old.rglob("*") if path.is_file()}
    assert old_files == {path.relative_to(new) for path in new.rglob("*") if path.is_file()}
    others = [str(path) for path in old_files if path.name != "saved_model.pb"]
    assert filecmp.cmpfiles(old, new, others, shallow=False) == (others, [], [])
    old_metas, new_metas = (files.load(path).content.meta_graphs for path in (old, new))
    for before, after in zip(old_metas, new_metas, strict=True):
        for meta in (before, after):
            meta.meta_info_def.ClearField("stripped_op_list")
        functions = [
            [f.signature.name for f in m.graph_def.library.function] for m in (before, after)
        ]
        assert functions[0] == functions[1]
        for one, other in zip(files.graphs_of(before), files.graphs_of(after), strict=True):
            assert {node.name for node in one.nodes} <= {node.name for node in other.nodes}
        for meta in (before, after):
            meta.ClearField("graph_def")
        assert before.SerializeToString(deterministic=True) == after.SerializeToString(
            deterministic=True
        )


@pytest.mark.parametrize("key", KEYS)
def test_a_repaired_model_has_no_dead_op(key, repaired):
    """`check` finds nothing in it, and its list of ops is that of its graph."""
    assert repair.check(repaired[key]) == []
    for meta in files.load(repaired[key]).content.meta_graphs:
        used = {node.op for place in files.graphs_of(meta) for node in place.nodes}
        functions = {function.signature.name for function in meta.graph_def.library.function}
        assert {op.name for op in meta.meta_info_def.stripped_op_list.op} == used - functions


def make_model(path, nodes, function=None, inputs=("x",)):
    """Writes a SavedModel of nodes, without variables; returns its directory."""
    content = private.saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = content.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    for name in inputs:
        node = meta.graph_def.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = tf.float32.as_datatype_enum
    meta.graph_def.node.extend(nodes)
    if function is not None:
        meta.graph_def.library.function.append(function)
    path.mkdir(parents=True, exist_ok=True)
    (path / "saved_model.pb").write_bytes(content.SerializeToString())
    return path


def new_node(name, op, inputs=(), **attributes):
    """Returns a NodeDef; integers and dtypes are its attributes."""
    node = tf.compat.v1.NodeDef(name=name, op=op, input=inputs)
    for key, value in attributes.items():
        if isinstance(value, tf.DType):
            node.attr[key].type = value.as_datatype_enum
        else:
            node.attr[key].i = value
    return node


def run_node(node, *values):
    """Returns the results of a node of these inputs, replaced, in a graph of this process."""
    definition = tf.compat.v1.GraphDef()
    for number, value in enumerate(values):
        const = definition.node.add(name=f"value_{number}", op="Const")
        const.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
        const.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        node.input.append(const.name)
    definition.node.append(node)
    body = rewriting.Body(definition.node)
    rewriting.replace(body, body.by_name[node.name], RULES[node.op], None)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(definition, name="")
        return session.run(session.graph.get_operation_by_name(node.name).outputs)


floats = st.floats(width=32, allow_subnormal=False)
values_and_boundaries = st.tuples(
    hnp.arrays(np.float32, st.integers(0, 20), elements=floats),
    st.lists(st.floats(width=32, allow_nan=False, allow_subnormal=False), max_size=8).map(sorted),
)


@given(values_and_boundaries)
def test_buckets_of_boosted_trees_are_those_of_the_kernel(pair):
    """For any numbers: the first boundary that isn't less, or the last; NaN is in the first."""
    values, boundaries = pair
    (found,) = run_node(
        new_node("buckets", "BoostedTreesBucketize", num_features=1),
        values,
        np.array(boundaries, np.float32),
    )
    less = np.array([sum(each < value for each in boundaries) for value in values], np.int32)
    np.testing.assert_array_equal(found, np.minimum(less, max(len(boundaries) - 1, 0)))


@given(values_and_boundaries, st.sampled_from([np.float32, np.float64, np.int64]))
def test_buckets_of_contrib_are_those_of_the_kernel(pair, dtype):
    """For any numbers: how many boundaries, in the input's type, aren't greater."""
    values, boundaries = pair
    if dtype == np.int64:
        values, boundaries = (np.clip(np.nan_to_num(each), -1e9, 1e9) for each in pair)
    values, ends = values.astype(dtype), np.array(boundaries, np.float32)
    node = new_node("buckets", "BucketizeWithInputBoundaries", T=tf.as_dtype(dtype))
    (found,) = run_node(node, values, ends)
    wanted = [sum(not value < each for each in ends.astype(dtype)) for value in values]
    np.testing.assert_array_equal(found, np.array(wanted, np.int32))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3), (2, 0, 3)])
def test_shapes_stay(shape):
    """Results have the shapes of the inputs, scalars and empty ones, too."""
    values = np.zeros(shape, np.float32)
    node = new_node("buckets", "BucketizeWithInputBoundaries", T=tf.float32)
    assert run_node(node, values, np.array([0.0, 1.0], np.float32))[0].shape == shape
    assert (
        run_node(new_node("sum", "AccumulateNV2", N=2, T=tf.float32), values, values)[0].shape
        == shape
    )


def test_names_that_are_taken_stay(tmp_path):
    """New nodes get other names than nodes which have the names of an earlier repair."""
    nodes = [
        new_node("sum", "AccumulateNV2", ["x", "x"], N=2, T=tf.float32),
        new_node("sum/repaired/AddN", "Identity", ["sum"], T=tf.float32),
    ]
    repair.repair(make_model(tmp_path / "old", nodes), tmp_path / "new")
    graph = files.load(tmp_path / "new").meta_graph().graph_def
    assert len({node.name for node in graph.node}) == len(graph.node)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(graph, name="")
        assert session.run("sum/repaired/AddN:0", {"x:0": 3.0}) == 6.0


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (new_node("m", "TPUReplicatedInput", ["x", "x"], N=2, T=tf.float32), "of 2 replicas"),
        (new_node("m", "TPUReplicateMetadata", [], num_replicas=8), "of 8 replicas"),
        (new_node("m", "CrossReplicaSum", ["x", "y"], T=tf.float32), "isn't known"),
        (new_node("m", "BoostedTreesPredict", ["x"], num_bucketized_features=0), "any of 0"),
        (new_node("m", "BoostedTreesBucketize", ["x"], num_features=1), "1 inputs instead of 2"),
        (new_node("m", "BoostedTreesBucketize", ["x"]), "no attribute 'num_features'"),
        (new_node("m", "BoostedTreesTrainingPredict", ["x"]), "for training"),
        (new_node("m", "TreePredictionsV4", ["x"]), "ydf"),
        (new_node("m", "Resampler", ["x", "x"]), "Addons>Resampler"),
        (new_node("m", "KafkaDataset", ["x"]), "tensorflow-io"),
        (new_node("m", "MyCompanysOp", ["x"]), "library that defines it"),
    ],
)
def test_what_cannot_be_replaced_is_named(node, reason, tmp_path, capsys):
    """`check` and `repair` say the node, its op and why or what to do; nothing is written."""
    path = make_model(tmp_path / "old", [node])
    assert main(["saved-model", "check", str(path)]) == 1
    shown = capsys.readouterr().out
    assert f"{node.op} (m)" in shown and reason in shown
    assert main(["saved-model", "repair", str(path), str(tmp_path / "new")]) == 2
    error = capsys.readouterr().err
    assert reason in error and error.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["old"]


def test_what_is_left_is_named(tmp_path, capsys):
    """`repair` writes a model that keeps ops without a replacement, and ends with status 1."""
    nodes = [
        new_node("sum", "AccumulateNV2", ["x", "x"], N=2, T=tf.float32),
        new_node("points", "Resampler", ["sum", "x"]),
    ]
    path = make_model(tmp_path / "old", nodes)
    assert main(["saved-model", "repair", str(path), str(tmp_path / "new")]) == 1
    assert "1 node left:\n  Resampler (points)" in capsys.readouterr().out
    assert [node.op.name for node in repair.check(tmp_path / "new")] == ["Resampler"]


def test_commands(tmp_path, capsys):
    """`check`, `doctor`, `repair --dry-run` and `repair` agree; the model isn't touched."""
    path = shutil.copytree(MODELS["tf1.15.5/contrib_float32"], tmp_path / "old")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert main(["saved-model", "check", str(path), "--json"]) == 1
    nodes = json.loads(capsys.readouterr().out)
    assert {node["op"]["name"] for node in nodes} == {"BucketizeWithInputBoundaries"}
    assert any(node["function"] for node in nodes)
    main(["saved-model", "show", str(path)])
    shown = capsys.readouterr().out
    assert shown.count("can't run: BucketizeWithInputBoundaries\n") == 1
    assert main(["doctor", str(path)]) == 1
    assert "11 nodes that TensorFlow" in capsys.readouterr().out
    command = ["saved-model", "repair", str(path), str(tmp_path / "new")]
    assert main([*command, "--dry-run"]) == 0
    assert "would be rewritten" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()
    assert main(command) == 0
    capsys.readouterr()
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new", "old"]
    assert main(["saved-model", "check", str(tmp_path / "new")]) == 0
    assert main(["doctor", str(tmp_path / "new")]) == 0
    assert "has all ops" in capsys.readouterr().out
    for output, wanted in (("new", "exists"), ("old/inside", "isn't changed")):
        assert main([*command[:3], str(tmp_path / output)]) == 2
        assert wanted in capsys.readouterr().err
    assert main(["saved-model", "repair", str(tmp_path / "new"), str(tmp_path / "again")]) == 2
    assert "nothing to repair" in capsys.readouterr().err


def test_a_text_model_stays_text(tmp_path):
    """A `saved_model.pbtxt` is read and written as one, and a fingerprint of the old graph goes."""
    path = make_model(
        tmp_path / "old", [new_node("sum", "AccumulateNV2", ["x", "x"], N=2, T=tf.float32)]
    )
    content = files.load(path).content
    (path / "saved_model.pb").unlink()
    (path / "saved_model.pbtxt").write_text(text_format.MessageToString(content))
    (path / "fingerprint.pb").write_bytes(b"")
    repair.repair(path, tmp_path / "new")
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["saved_model.pbtxt"]
    assert repair.check(tmp_path / "new") == []


@pytest.mark.parametrize(
    ("missing", "wanted"),
    [("variables/variables.index", "lacks variables/variables.index"), ("saved_model.pb", "no ")],
)
def test_models_with_missing_files(missing, wanted, tmp_path, capsys):
    """One line names what is missing, before anything is written."""
    path = shutil.copytree(MODELS["tf2.8.4/trees_equality"], tmp_path / "old")
    (path / missing).unlink()
    assert main(["saved-model", "repair", str(path), str(tmp_path / "new")]) == 2
    error = capsys.readouterr().err
    assert wanted in error and error.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["old"]


def test_assets_are_copied(tmp_path):
    """Assets, and files that nobody knows, are in the copy; a missing asset is named."""
    path = make_model(
        tmp_path / "old", [new_node("sum", "AccumulateNV2", ["x", "x"], N=2, T=tf.float32)]
    )
    content = files.load(path).content
    content.meta_graphs[0].asset_file_def.add(filename="words.txt").tensor_info.name = "x:0"
    (path / "saved_model.pb").write_bytes(content.SerializeToString())
    with pytest.raises(files.SavedModelError, match="lacks assets/words.txt"):
        repair.repair(path, tmp_path / "new")
    for name, text in (("assets/words.txt", "a\n"), ("assets.extra/b/c", "d"), ("notes", "")):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    repair.repair(path, tmp_path / "new")
    assert (tmp_path / "new" / "assets" / "words.txt").read_text() == "a\n"
    assert (tmp_path / "new" / "assets.extra" / "b" / "c").read_text() == "d"
    assert (tmp_path / "new" / "notes").exists()


def test_damaged_variables_are_named(tmp_path):
    """Trees that can't be read aren't rewritten, and the reason is said."""
    path = shutil.copytree(MODELS["tf2.8.4/trees_equality"], tmp_path / "old")
    data = path / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:10])
    (predict,) = [node for node in repair.check(path) if node.op.name == "BoostedTreesPredict"]
    assert "can't be read" in predict.refusal


def test_trees_in_a_function(tmp_path):
    """Trees whose handle is the argument of a function are those of the model's only ensemble."""
    key = "tf2.8.4/trees_numbers"
    path = shutil.copytree(MODELS[key], tmp_path / "old")
    content = files.load(path).content
    graph = content.meta_graphs[0].graph_def
    (node,) = [node for node in graph.node if node.op == "BoostedTreesPredict"]
    function = graph.library.function.add()
    function.signature.name = "predict"
    inner = function.node_def.add()
    inner.CopyFrom(node)
    inner.name = "inner"
    types = [tf.resource, *[tf.int32] * (len(node.input) - 1)]
    inner.input[:] = [f"argument_{number}" for number in range(len(types))]
    for name, dtype in zip(inner.input, types, strict=True):
        function.signature.input_arg.add(name=name, type=dtype.as_datatype_enum)
    function.signature.output_arg.add(name="out", type=tf.float32.as_datatype_enum)
    function.ret["out"] = "inner:logits:0"
    node.op = "StatefulPartitionedCall"
    node.attr.clear()
    node.attr["f"].func.name = "predict"
    node.attr["Tin"].list.type.extend(dtype.as_datatype_enum for dtype in types)
    node.attr["Tout"].list.type.append(tf.float32.as_datatype_enum)
    (path / "saved_model.pb").write_bytes(content.SerializeToString())
    nodes = repair.repair(path, tmp_path / "new")
    assert [(each.name, each.refusal) for each in nodes if each.function] == [("inner", "")]
    signature, (feed,), (expected,) = recordings(key)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path / "new"))
        infos = loaded.signature_def[signature]
        fed = {infos.inputs[name].name: value for name, value in feed.items()}
        found = session.run({name: info.name for name, info in infos.outputs.items()}, fed)
    np.testing.assert_allclose(found["predictions"], expected["predictions"], atol=1e-6)


@pytest.mark.nightly("large, and the walk over nodes is that of small graphs")
def test_a_large_graph(tmp_path):
    """A graph of 100,000 nodes, a thousand of them dead, is repaired."""
    nodes = [new_node("sum_0", "AccumulateNV2", ["x", "x"], N=2, T=tf.float32)]
    for number in range(1, 100_000):
        op = "AccumulateNV2" if number % 100 == 0 else "AddN"
        nodes.append(new_node(f"sum_{number}", op, [f"sum_{number - 1}", "x"], N=2, T=tf.float32))
    assert len(repair.repair(make_model(tmp_path / "old", nodes), tmp_path / "new")) == 1000
    assert repair.check(tmp_path / "new") == []


def test_the_table_is_complete():
    """Every op of the recorded names has a verdict and advice; every rule is of such an op."""
    names = {name for group in NAMES.values() for name in group.split()}
    table = verdicts.table()
    assert set(table) == names and set(RULES) <= names
    assert {op.verdict for op in table.values()} == {"exact", "package", "none"}
    assert all(op.advice for op in table.values())
    assert {op.name for op in table.values() if op.verdict == "exact"} == set(RULES)
    assert verdicts.find("MatMul") is None


def test_recorded_ops_are_dead():
    """This TensorFlow can't run the ops of the table that it still knows."""
    known = [name for name in verdicts.table() if private.op_def_registry.get(name) is not None]
    assert "BoostedTreesBucketize" in known
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.raw_ops.IsBoostedTreesEnsembleInitialized(
            tree_ensemble_handle=tf.raw_ops.BoostedTreesEnsembleResourceHandleOp(), name="op"
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match="No OpKernel"):
            session.run("op:0")


def test_the_page_is_current():
    """docs/how_to/dead_ops.md has the table that its script makes."""
    script = DATA.parents[1] / "docs" / "make_dead_ops.py"
    spec = importlib.util.spec_from_file_location("make_dead_ops", script)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.PAGE.read_text(encoding="utf-8") == made.page()
