# SPDX-License-Identifier: Apache-2.0
"""Exports canned estimators of the interpreter's own TensorFlow, and records their predictions.

    python record.py DIRECTORY [NAME ...]

Runs under TensorFlow 1.15 (Python 3.7) to 2.15. Below DIRECTORY, each model gets a directory with
`saved/`, the SavedModel; `model/`, the training's directory; `inputs.npz` and `outputs.npz`: what
was fed to the signature, and what it returned. A name is that of a recipe and, for those of
`tf.compat.v1.estimator`, `_v1`; every estimator of TensorFlow 1.15 is of that generation.
"""

import os
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
fc = tf.feature_column
ROWS, TRAINED = 200, 32
WORDS = [f"w{number}" for number in range(25)]


def example_features(rng):
    """Returns the features of a random example: lists of numbers or text by key."""

    def some(low, high, make):
        return [make() for _ in range(rng.randint(low, high))]

    tags = some(0, 5, lambda: f"w{rng.randint(30)}")
    found = {
        "age": [float(rng.uniform(10, 80))],
        "income": [float(np.exp(rng.normal(9, 1)))],
        "city": some(0, 4, lambda: f"c{rng.randint(8)}"),
        "job": some(0, 4, lambda: f"j{rng.randint(100)}"),
        "tags": tags,
        "tag_weights": [float(rng.uniform(-0.5, 2)) for _ in tags],
        "code": some(0, 3, lambda: int(rng.randint(-5, 10**9))),
        "kind": some(0, 3, lambda: int(rng.randint(-2, 12))),
        "size": some(1, 3, lambda: int(rng.randint(0, 6))),
        "level": some(0, 3, lambda: int(rng.randint(0, 50)) * 10),
        "src": some(0, 3, lambda: f"w{rng.randint(30)}"),
        "dst": some(0, 3, lambda: f"w{rng.randint(30)}"),
        "weight": [float(rng.uniform(0.5, 2))],
    }
    if rng.rand() < 0.8:
        found["pair"] = [float(value) for value in rng.normal(size=2)]
    return found


def serialized(features):
    """Returns a tf.Example of features."""
    example = tf.train.Example()
    for key, values in features.items():
        feature = example.features.feature[key]
        kinds = {str: feature.bytes_list, int: feature.int64_list, float: feature.float_list}
        kind = kinds[type(values[0])] if values else feature.bytes_list
        if values or key in ("city", "job", "tags", "src", "dst"):
            kind.value.extend(v.encode() if isinstance(v, str) else v for v in values)
    return example.SerializeToString()


def raw_arrays(rng, count):
    """Returns dense features of examples, by key."""

    def words(pattern, high, width):
        ids = rng.randint(0, high, (count, width))
        texts = [pattern % each if each else "" for each in ids.ravel()]
        return np.array(texts, object).reshape(count, width)

    return {
        "age": rng.uniform(10, 80, (count, 1)).astype(np.float32),
        "income": np.exp(rng.normal(9, 1, (count, 1))).astype(np.float32),
        "pair": rng.normal(size=(count, 2)).astype(np.float32),
        "city": words("c%d", 8, 1),
        "job": words("j%d", 100, 2),
        "tags": words("w%d", 30, 2),
        "code": rng.randint(-1, 10**9, (count, 1)),
        "kind": rng.randint(-1, 10, (count, 2)),
        "size": rng.randint(0, 6, (count, 1)),
        "level": rng.randint(0, 50, (count, 1)).astype(np.int32) * 10,
        "src": words("w%d", 30, 2),
        "dst": words("w%d", 30, 2),
    }


def make_columns(words, v1):
    """Returns columns by name.

    Args:
        words: path of a vocabulary file.
        v1: whether shared embeddings are those of TensorFlow 1.
    """

    def init(seed):
        return tf1.truncated_normal_initializer(stddev=0.5, seed=seed)

    age = fc.numeric_column("age")
    city = fc.categorical_column_with_vocabulary_list("city", [f"c{i}" for i in range(6)])
    city_oov = fc.categorical_column_with_vocabulary_list(
        "city", ["c1", "c3", "c0"], num_oov_buckets=3
    )
    job = fc.categorical_column_with_hash_bucket("job", 40)
    tags = fc.categorical_column_with_vocabulary_file("tags", words, 20, num_oov_buckets=2)
    tags_all = fc.categorical_column_with_vocabulary_file("tags", words)
    weighted = fc.weighted_categorical_column(tags, "tag_weights")
    code = fc.categorical_column_with_hash_bucket("code", 30, tf.int64)
    kind = fc.categorical_column_with_identity("kind", 10, default_value=0)
    size = fc.categorical_column_with_identity("size", 6)
    level = fc.categorical_column_with_vocabulary_list(
        "level", [10, 30, 20, 400], dtype=tf.int64, default_value=2
    )
    level_oov = fc.categorical_column_with_vocabulary_list(
        "level", [10, 30], dtype=tf.int64, num_oov_buckets=2
    )
    buckets = fc.bucketized_column(age, [18.0, 30.5, 45.0, 60.25])
    pair = fc.numeric_column("pair", [2], default_value=[0.5, -0.5])
    pair_buckets = fc.bucketized_column(pair, [-1.0, 0.0, 1.0])
    src, dst = (
        fc.categorical_column_with_vocabulary_list(key, WORDS[:20]) for key in ("src", "dst")
    )
    share = tf1.feature_column.shared_embedding_columns if v1 else fc.shared_embeddings
    shared = share([src, dst], 3, "mean", init(7))
    return {
        "age": age,
        "income": fc.numeric_column("income", normalizer_fn=lambda x: tf.math.log1p(x) / 4.0),
        "age_scaled": fc.numeric_column("age", normalizer_fn=lambda x: (x - 40.0) / 17.5),
        "pair": pair,
        "pair_clipped": fc.numeric_column(
            "pair",
            [2],
            [0.5, -0.5],
            normalizer_fn=lambda x: tf.clip_by_value(x * 2.0 - [0.25, 0.5], -1.0, 1.0),
        ),
        "city": city,
        "city_oov": city_oov,
        "job": job,
        "tags": tags,
        "tags_all": tags_all,
        "weighted": weighted,
        "code": code,
        "kind": kind,
        "size": size,
        "level": level,
        "level_oov": level_oov,
        "buckets": buckets,
        "pair_buckets": pair_buckets,
        "src": src,
        "cross": fc.crossed_column([buckets, city, "job"], 50, hash_key=77),
        "cross_words": fc.crossed_column(["src", "dst"], 30),
        "cross_pair": fc.crossed_column([pair_buckets, kind], 23),
        "i_city": fc.indicator_column(city),
        "i_level": fc.indicator_column(level_oov),
        "i_kind": fc.indicator_column(kind),
        "i_size": fc.indicator_column(size),
        "i_tags": fc.indicator_column(tags),
        "i_weighted": fc.indicator_column(weighted),
        "i_cross": fc.indicator_column(fc.crossed_column(["job", city], 20)),
        "e_job": fc.embedding_column(job, 3, "sqrtn", init(1)),
        "e_weighted": fc.embedding_column(weighted, 2, "mean", init(2)),
        "e_weighted_sum": fc.embedding_column(weighted, 3, "sum", init(2)),
        "e_weighted_sqrtn": fc.embedding_column(weighted, 3, "sqrtn", init(2)),
        "e_code": fc.embedding_column(code, 2, "sum", init(3)),
        "e_city": fc.embedding_column(city_oov, 2, "mean", init(4), max_norm=0.7),
        "e_size": fc.embedding_column(size, 2, "mean", init(5), trainable=False),
        "e_level": fc.embedding_column(level, 2, "mean", init(6)),
        "e_tags": fc.embedding_column(tags_all, 4, "mean", init(8)),
        "e_cross": fc.embedding_column(fc.crossed_column(["src", "job"], 37), 2, "mean", init(9)),
        "e_buckets": fc.embedding_column(buckets, 2, "mean", init(9)),
        "src_shared": shared[0],
        "dst_shared": shared[1],
    }


WIDE = [
    "age",
    "buckets",
    "pair_buckets",
    "city",
    "job",
    "weighted",
    "code",
    "kind",
    "size",
    "level",
    "cross",
    "cross_words",
]
DEEP = [
    "age",
    "pair_clipped",
    "buckets",
    "pair_buckets",
    "i_city",
    "i_weighted",
    "i_kind",
    "i_cross",
    "e_job",
    "e_weighted",
    "e_code",
    "e_city",
    "e_size",
    "e_level",
    "src_shared",
    "dst_shared",
]
RAW_WIDE = ["city", "job", "kind", "level_oov", "buckets", "cross", "cross_pair", "age"]
RAW_DEEP = [
    "income",
    "i_city",
    "e_job",
    "e_code",
    "i_level",
    "buckets",
    "src_shared",
    "dst_shared",
]
PLAIN_DEEP = [
    "age_scaled",
    "income",
    "i_city",
    "i_size",
    "e_tags",
    "e_buckets",
    "e_cross",
    "e_weighted_sum",
]

# Kind, columns, arguments, form of the labels, receiver.
RECIPES = {
    "combined": ("DNNLinearCombinedClassifier", (WIDE, DEEP), {"units": [8, 4]}, 2, "parse"),
    "combined_raw": ("DNNLinearCombinedClassifier", (RAW_WIDE, RAW_DEEP), {"units": [5]}, 2, "raw"),
    "combined_reg": (
        "DNNLinearCombinedRegressor",
        (["age"], ["income"]),
        {"units": [5, 3], "label_dimension": 2},
        "number2",
        "raw",
    ),
    "combined3": (
        "DNNLinearCombinedClassifier",
        (["city"], PLAIN_DEEP),
        {"units": [6], "n_classes": 3, "dnn_activation_fn": tf.nn.sigmoid, "batch_norm": True},
        3,
        "parse",
    ),
    "linear": (
        "LinearClassifier",
        (RAW_WIDE, ()),
        {"label_vocabulary": ["no", "yes"]},
        "words2",
        "raw",
    ),
    "linear_rank1": ("LinearClassifier", (["city", "age", "code", "buckets"], ()), {}, 2, "rank1"),
    "linear3": (
        "LinearClassifier",
        (WIDE, ()),
        {"n_classes": 3, "label_vocabulary": ["low", "mid", "high"], "sparse_combiner": "mean"},
        "words3",
        "parse",
    ),
    "linear_reg": ("LinearRegressor", (WIDE, ()), {"label_dimension": 2}, "number2", "parse"),
    "linear_weighted": (
        "LinearRegressor",
        (["weighted", "tags_all", "income"], ()),
        {"weight_column": "weight", "sparse_combiner": "sqrtn"},
        "number1",
        "parse",
    ),
    "linear_sparse_raw": ("LinearClassifier", (["city", "kind"], ()), {}, 2, "sparse"),
    "dnn": ("DNNClassifier", ((), PLAIN_DEEP), {"units": [8, 8]}, 2, "parse"),
    "dnn_reg": (
        "DNNRegressor",
        ((), DEEP),
        {"units": [8, 4], "activation_fn": tf.nn.tanh, "dropout": 0.1, "batch_norm": True},
        "number1",
        "parse",
    ),
    "dnn3": (
        "DNNClassifier",
        ((), ["i_tags", "e_weighted_sqrtn", "pair"]),
        {
            "units": [7],
            "n_classes": 3,
            "label_vocabulary": ["a", "b", "c"],
            "activation_fn": tf.nn.leaky_relu,
        },
        "words3abc",
        "parse",
    ),
    "dnn_one": (
        "DNNRegressor",
        ((), ["e_job"]),
        {"units": [3], "activation_fn": tf.nn.softplus},
        "number1",
        "rank1",
    ),
    "dnn_selu": (
        "DNNClassifier",
        ((), ["age_scaled", "e_size"]),
        {"units": [4, 4, 4], "activation_fn": tf.nn.selu},
        2,
        "raw",
    ),
    "dnn_parts": (
        "DNNClassifier",
        ((), ["e_job", "age", "e_code"]),
        {"units": [64], "input_layer_partitioner": "parts"},
        2,
        "parse",
    ),
    "linear_parts": (
        "LinearClassifier",
        (["job", "city", "age"], ()),
        {"partitioner": "parts"},
        2,
        "parse",
    ),
    "baseline3": ("BaselineClassifier", ((), ()), {"n_classes": 3}, 3, "parse"),
    "baseline_reg": ("BaselineRegressor", ((), ()), {}, "number1", "parse"),
    "poisson": (
        "DNNEstimator",
        ((), RAW_DEEP),
        {"units": [4], "head": "PoissonRegressionHead"},
        "number1",
        "raw",
    ),
    "logistic": (
        "LinearEstimator",
        (RAW_WIDE, ()),
        {"head": "LogisticRegressionHead"},
        "share",
        "raw",
    ),
    "multilabel": (
        "DNNEstimator",
        ((), DEEP),
        {"units": [6], "head": "MultiLabelHead", "activation_fn": tf.nn.elu},
        "hot3",
        "parse",
    ),
    "multihead": (
        "DNNEstimator",
        ((), RAW_DEEP),
        {"units": [4], "head": "MultiHead"},
        "several",
        "raw",
    ),
}
# Only the second generation has these heads in public; only the first these arguments.
ONLY_V2 = ("poisson", "logistic", "multilabel", "multihead")
ONLY_V1 = ("dnn_parts", "linear_parts")


def make_labels(kind, numbers):
    """Returns labels of a form, made of numbers from 0 to 2."""
    hot = np.eye(3)[numbers].astype(np.int64)
    column = numbers[:, None]
    forms = {
        2: (column > 0).astype(np.int64),
        3: column,
        "words2": np.array(["no", "yes"])[np.minimum(column, 1)],
        "words3": np.array(["low", "mid", "high"])[column],
        "words3abc": np.array(["a", "b", "c"])[column],
        "share": column.astype(np.float32) / 2,
        "number1": column.astype(np.float32),
        "number2": np.concatenate([column, column], 1).astype(np.float32),
        "hot3": hot,
        "several": {"one": (column > 0).astype(np.int64), "two": column.astype(np.float32)},
    }
    return forms[kind]


class RandomValues(tf.estimator.SessionRunHook):
    """Gives all variables random values, so that each one counts."""

    def begin(self):
        rng = np.random.RandomState(3)
        self.feeds = []
        for variable in tf1.global_variables():
            if variable.dtype.base_dtype != tf.float32 or not variable.shape.num_elements():
                continue
            value = rng.normal(size=variable.shape.as_list()).astype(np.float32) * 0.4
            if "variance" in variable.name:
                value = np.abs(value) + 0.5
            given = tf1.placeholder(tf.float32, variable.shape)
            self.feeds.append((variable.assign(given), given, value))

    def after_create_session(self, session, coord):
        for op, given, value in self.feeds:
            session.run(op, {given: value})


def make_head(name):
    """Returns a head of the second generation."""
    heads = tf.estimator
    if name == "MultiHead":
        return heads.MultiHead(
            [heads.BinaryClassHead(name="one"), heads.RegressionHead(name="two")]
        )
    return heads.MultiLabelHead(3) if name == "MultiLabelHead" else getattr(heads, name)()


def make_estimator(recipe, v1, columns, model_dir):
    """Returns the estimator of a recipe, and its columns."""
    kind, (wide, deep), options, _, _ = recipe
    options = dict(options)
    wide, deep = [columns[name] for name in wide], [columns[name] for name in deep]
    module = tf1.estimator if v1 else tf.estimator
    sgd = tf1.train.GradientDescentOptimizer if v1 else tf.keras.optimizers.SGD
    sgd = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers).SGD if not v1 else sgd
    config = tf.estimator.RunConfig(tf_random_seed=1)
    arguments = {"model_dir": model_dir, "config": config}
    for name in ("input_layer_partitioner", "partitioner"):
        if options.get(name) == "parts":
            options[name] = tf1.fixed_size_partitioner(2)
    if "head" in options:
        options["head"] = make_head(options["head"])
    units = options.pop("units", None)
    if kind.startswith("DNNLinear"):
        arguments.update(
            linear_feature_columns=wide,
            dnn_feature_columns=deep,
            dnn_hidden_units=units,
            linear_optimizer=sgd(0.0),
            dnn_optimizer=sgd(0.0),
        )
    elif kind.startswith("DNN"):
        arguments.update(feature_columns=deep, hidden_units=units, optimizer=sgd(0.0))
    elif kind.startswith("Linear"):
        arguments.update(feature_columns=wide, optimizer=sgd(0.0))
    else:
        wide = [columns["age"]]
    arguments.update(options)
    return getattr(module, kind)(**arguments), wide + deep


def make_receiver(form, spec, raw):
    """Returns a function that builds the placeholders of a served model."""
    if form == "parse":
        return tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)

    def receiver():
        features, inputs = {}, {}
        for key, array in raw.items():
            dtype = tf.as_dtype(array.dtype) if array.dtype != object else tf.string
            if form == "sparse" and key not in ("age", "income", "pair"):
                features[key] = inputs[key] = tf1.sparse_placeholder(dtype, [None, None], name=key)
            elif form == "rank1" and array.shape[1] == 1:
                inputs[key] = tf1.placeholder(dtype, [None], name=key)
                features[key] = tf.expand_dims(inputs[key], -1)
            else:
                shape = [None, array.shape[1]]
                inputs[key] = features[key] = tf1.placeholder(dtype, shape, name=key)
        return tf.estimator.export.ServingInputReceiver(features, inputs)

    return receiver


def feed_of(info, value, graph):
    """Returns what feeds an input of a signature."""
    if info.WhichOneof("encoding") != "coo_sparse":
        tensor = graph.get_tensor_by_name(info.name)
        return {tensor: value[:, 0] if tensor.shape.rank == 1 and value.ndim == 2 else value}
    kept = value != ("" if value.dtype == object else -1)
    names = info.coo_sparse
    parts = (np.argwhere(kept), value[kept], np.array(value.shape, np.int64))
    tensors = (names.indices_tensor_name, names.values_tensor_name, names.dense_shape_tensor_name)
    return dict(zip(map(graph.get_tensor_by_name, tensors), parts))  # noqa: B905


def predict(directory, inputs):
    """Returns what the signature 'predict' of a SavedModel, or its default, makes of inputs."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        meta = tf1.saved_model.loader.load(session, ["serve"], directory)
        signature = meta.signature_def.get("predict") or meta.signature_def["serving_default"]
        feed = {}
        for key, info in signature.inputs.items():
            feed.update(feed_of(info, inputs["examples" if key == "inputs" else key], graph))
        wanted = {
            key: graph.get_tensor_by_name(info.name) for key, info in signature.outputs.items()
        }
        return session.run(wanted, feed)


def packed(array):
    """Returns arrays without objects of an array: text is its bytes and their lengths."""
    texts = [v if isinstance(v, bytes) else v.encode() for v in array.ravel().tolist()]
    lengths = np.array([len(text) for text in texts]).reshape(array.shape)
    return {"bytes": np.frombuffer(b"".join(texts), np.uint8), "lengths": lengths}


def save(path, arrays):
    """Writes arrays as .npz."""
    plain = {}
    for key, array in arrays.items():
        if array.dtype.kind in "OSU":
            for part, value in packed(array).items():
                plain[f"{key}:{part}"] = value
        else:
            plain[key] = array
    np.savez_compressed(path, **plain)


def record(directory, name):
    """Makes the model of a name below a directory."""
    v1 = name.endswith("_v1") or tf.__version__.startswith("1.")
    base = name[:-3] if name.endswith("_v1") else name
    recipe = RECIPES[base]
    kind, _, _, labels, form = recipe
    home = os.path.join(directory, name)
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home)
    words = os.path.join(home, "words.txt")
    with open(words, "w") as file:
        file.write("".join(word + "\n" for word in WORDS))
    rng = np.random.RandomState(5)
    with tf.Graph().as_default():
        columns = make_columns(words, v1)
    estimator, used = make_estimator(recipe, v1, columns, os.path.join(home, "model"))
    make_spec = tf1.feature_column.make_parse_example_spec if v1 else fc.make_parse_example_spec
    spec = make_spec(used)
    if "weight_column" in recipe[2]:
        spec["weight"] = tf.io.FixedLenFeature([1], tf.float32, 1.0)
    examples = np.array([serialized(example_features(rng)) for _ in range(ROWS)], object)
    raw = {key: value for key, value in raw_arrays(rng, ROWS).items() if key in spec}
    target = make_labels(labels, rng.randint(0, 3, TRAINED))

    def input_fn():
        if form == "parse":
            data = tf.data.Dataset.from_tensors((tf.constant(examples[:TRAINED]), target))
            return data.map(lambda x, y: (tf.io.parse_example(x, spec), y))
        return tf.data.Dataset.from_tensors(({k: v[:TRAINED] for k, v in raw.items()}, target))

    estimator.train(input_fn, hooks=[RandomValues()], steps=1)
    receiver = make_receiver(form, spec, raw)
    path = estimator.export_saved_model(os.path.join(home, "export"), receiver)
    os.rename(path.decode(), os.path.join(home, "saved"))
    os.rmdir(os.path.join(home, "export"))
    inputs = {"examples": examples} if form == "parse" else raw
    save(os.path.join(home, "inputs.npz"), inputs)
    outputs = predict(os.path.join(home, "saved"), inputs)
    save(os.path.join(home, "outputs.npz"), outputs)
    print(name, kind, {key: value.shape for key, value in sorted(outputs.items())})
    sys.stdout.flush()


def all_names():
    """Returns the names of all models that this TensorFlow makes."""
    if tf.__version__.startswith("1."):
        return [name for name in RECIPES if name not in ONLY_V2]
    first = [name + "_v1" for name in RECIPES if name not in ONLY_V2]
    return [name for name in RECIPES if name not in ONLY_V1] + first


if __name__ == "__main__":
    tf1.logging.set_verbosity("ERROR")
    for each in sys.argv[2:] or all_names():
        record(os.path.abspath(sys.argv[1]), each)
