# SPDX-License-Identifier: Apache-2.0
"""Strategies that draw heads and batches, good ones and bad ones, and fixed cases.

See `head_calls` for their form. The last batch of some drawn cases has one thing wrong: a shape, a
dtype, a range or a missing label.
"""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st

drawing = settings(
    deadline=None,
    derandomize=True,
    database=None,
    # Without shrinking, which would ask the reference many times more.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

WORDS = ("ant", "bee", "cat", "dog")
REDUCTIONS = ("sum", "sum_over_batch_size", "auto")
REDUCTIONS_V1 = (
    "weighted_sum",
    "weighted_mean",
    "weighted_sum_over_batch_size",
    "weighted_sum_by_nonzero_weights",
)


def floats(low, high):
    """Draws numbers with few digits, whose sums both sides round alike."""
    return st.integers(int(low * 16), int(high * 16)).map(lambda number: number / 16)


def arrays(shape, low, high, dtype=np.float32):
    """Draws arrays of numbers with few digits."""
    return numpy_st.arrays(np.float64, shape, elements=floats(low, high)).map(
        lambda array: array.astype(dtype)
    )


outer_shapes = st.one_of(
    st.integers(1, 5).map(lambda size: (size,)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
)


def maybe_squeezed(array, last_dimension):
    """Draws the array with or without a last dimension of one."""
    if last_dimension != 1:
        return st.just(array)
    return st.sampled_from([array, array.reshape(array.shape[:-1])])


@st.composite
def weights(draw, outer, per_logit=0):
    """Draws the weights of examples, and of logits if `per_logit` is their number."""
    last = draw(st.sampled_from([1, per_logit] if per_logit > 1 else [1]))
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int64, np.int32]))
    array = draw(arrays((*outer, last), 0, 4, dtype))
    return draw(maybe_squeezed(array, last))


@st.composite
def class_ids(draw, outer, n_classes, dtypes, vocabulary):
    """Draws class ids, or words of the vocabulary, of rank with or without a last dimension."""
    ids = draw(numpy_st.arrays(np.int64, (*outer, 1), elements=st.integers(0, n_classes - 1)))
    if vocabulary:
        labels = np.array(WORDS, object)[ids]
    else:
        labels = ids.astype(draw(st.sampled_from(dtypes)))
    return draw(maybe_squeezed(labels, 1))


def spoiled(draw, batch, dimension, n_classes):
    """Returns the batch with one thing wrong."""
    labels, logits = batch["labels"], batch["logits"]
    wrong = draw(
        st.sampled_from(
            ["no labels", "too many labels", "dimension", "strings", "logits", "rank", "weights"]
            + (["range", "floats", "negative"] if n_classes else [])
        )
    )
    batch = dict(batch)
    if wrong == "no labels":
        batch["labels"] = None
    elif isinstance(labels, tuple) or wrong == "logits":
        batch["logits"] = np.concatenate([logits, logits], -1)
    elif wrong == "too many labels":
        batch["labels"] = np.concatenate([labels, labels], 0)
    elif wrong == "dimension":
        batch["labels"] = np.stack([labels] * (dimension + 1), -1)
    elif wrong == "strings":
        batch["labels"] = np.full(labels.shape, "emu", object)
    elif wrong == "rank":
        batch["logits"] = logits.reshape(-1)
    elif wrong == "weights":
        batch["features"] = {"weight": np.ones((len(logits) + 1, 1), np.float32)}
    elif labels.dtype.kind == "O":
        batch["labels"] = np.full(labels.shape, "emu", object)
    elif wrong == "range":
        batch["labels"] = (labels.astype(np.int64) + n_classes).astype(np.int64)
    elif wrong == "negative":
        batch["labels"] = labels.astype(np.int64) - n_classes
    else:
        batch["labels"] = labels.astype(np.float32) + 0.5
    return batch


rarely = st.sampled_from([False, False, False, False, True])


@st.composite
def cases(draw, head, arguments, dimension, labels, per_logit=0, n_classes=0):
    """Draws a case of a head.

    Args:
        draw: by hypothesis.
        head: name of the head.
        arguments: strategy of the head's arguments, beside those that all have.
        dimension: of the logits.
        labels: function of the shape of a batch that returns the strategy of labels.
        per_logit: the number of weights that an example may have, if it may have several.
        n_classes: number of classes, of heads whose labels have a range.
    """
    arguments = dict(draw(arguments))
    arguments["loss_reduction"] = draw(st.sampled_from(REDUCTIONS))
    if draw(st.booleans()):
        arguments["name"] = "some_head"
    if draw(st.booleans()):
        arguments["weight_column"] = "weight"
    batches = []
    for _ in range(draw(st.integers(8, 10))):
        outer = draw(outer_shapes)
        batch = {
            "logits": draw(arrays((*outer, dimension), -6, 6)),
            "labels": draw(labels(outer)),
            "features": {},
        }
        if "weight_column" in arguments:
            batch["features"]["weight"] = draw(weights(outer, per_logit))
        batches.append(batch)
    if draw(rarely):
        batches[-1] = spoiled(draw, batches[-1], dimension, n_classes)
    regularization = draw(st.sampled_from([None, [0.5], [1.5, 2.0]]))
    return {
        "head": head,
        "arguments": arguments,
        "batches": batches,
        "regularization_losses": regularization,
    }


def options(**strategies):
    """Draws some of the given arguments."""
    return st.fixed_dictionaries({}, optional=strategies)


thresholds = st.lists(st.sampled_from([0.1, 0.25, 0.5, 0.9]), min_size=1, max_size=2, unique=True)


@st.composite
def binary_class(draw):
    """Draws a case of a `BinaryClassHead`."""
    vocabulary = draw(st.booleans())
    arguments = options(thresholds=thresholds, loss_fn=st.just("hinge"))
    if vocabulary:
        arguments = arguments.map(lambda found: {**found, "label_vocabulary": list(WORDS[:2])})
    dtypes = [np.int32, np.int64, np.uint8, np.float32, np.float64, np.bool_]
    return draw(
        cases(
            "BinaryClassHead",
            arguments,
            1,
            lambda outer: class_ids(outer, 2, dtypes, vocabulary),
            n_classes=2,
        )
    )


@st.composite
def multi_class(draw):
    """Draws a case of a `MultiClassHead`."""
    n_classes = draw(st.integers(3, 4))
    vocabulary = draw(st.booleans())
    arguments = options(loss_fn=st.just("hinge"))
    fixed = {"n_classes": n_classes}
    if vocabulary:
        fixed["label_vocabulary"] = list(WORDS[:n_classes])
    return draw(
        cases(
            "MultiClassHead",
            arguments.map(lambda found: {**found, **fixed}),
            n_classes,
            lambda outer: class_ids(outer, n_classes, [np.int32, np.int64], vocabulary),
            n_classes=n_classes,
        )
    )


@st.composite
def label_sets(draw, outer, n_classes, vocabulary):
    """Draws labels of several classes: of 0 and 1, or sparse ids or words."""
    dense = draw(numpy_st.arrays(np.int64, (*outer, n_classes), elements=st.integers(0, 1)))
    if not draw(st.booleans()):
        return dense.astype(draw(st.sampled_from([np.int32, np.int64, np.float32])))
    indices, values = np.argwhere(dense), np.argwhere(dense)[:, -1]
    if vocabulary:
        values = np.array(WORDS, object)[values]
    return indices, values, list(dense.shape)


@st.composite
def multi_label(draw):
    """Draws a case of a `MultiLabelHead`."""
    n_classes = draw(st.integers(2, 3))
    vocabulary = draw(st.booleans())
    of_classes = st.lists(st.integers(0, n_classes - 1), min_size=1, max_size=2, unique=True)
    fixed = {"n_classes": n_classes}
    if vocabulary:
        fixed["label_vocabulary"] = list(WORDS[:n_classes])
        of_classes = of_classes.map(lambda ids: [WORDS[class_id] for class_id in ids])
    arguments = options(
        thresholds=thresholds, loss_fn=st.just("hinge"), classes_for_class_based_metrics=of_classes
    )
    return draw(
        cases(
            "MultiLabelHead",
            arguments.map(lambda found: {**found, **fixed}),
            n_classes,
            lambda outer: label_sets(outer, n_classes, vocabulary),
        )
    )


@st.composite
def values(draw, outer, dimension, low, high):
    """Draws labels of a regression."""
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int32, np.int64]))
    return draw(maybe_squeezed(draw(arrays((*outer, dimension), low, high, dtype)), dimension))


@st.composite
def regression(draw):
    """Draws a case of a `RegressionHead`."""
    dimension = draw(st.integers(1, 3))
    arguments = options(
        loss_fn=st.just("absolute"), inverse_link_fn=st.sampled_from(["exp", "sigmoid"])
    )
    return draw(
        cases(
            "RegressionHead",
            arguments.map(lambda found: {**found, "label_dimension": dimension}),
            dimension,
            lambda outer: values(outer, dimension, -8, 8),
            per_logit=dimension,
        )
    )


@st.composite
def poisson_regression(draw):
    """Draws a case of a `PoissonRegressionHead`."""
    dimension = draw(st.integers(1, 2))
    arguments = options(compute_full_loss=st.booleans())
    return draw(
        cases(
            "PoissonRegressionHead",
            arguments.map(lambda found: {**found, "label_dimension": dimension}),
            dimension,
            lambda outer: values(outer, dimension, 0, 9),
            per_logit=dimension,
        )
    )


def logistic_regression():
    """Draws a case of a `LogisticRegressionHead`."""
    return cases("LogisticRegressionHead", st.just({}), 1, lambda outer: values(outer, 1, 0, 1))


@st.composite
def multi_head(draw):
    """Draws a case of a `MultiHead` of two or three heads."""
    reduction = draw(st.sampled_from(REDUCTIONS))
    kinds = {
        "click": ("BinaryClassHead", {}, 1),
        "kind": ("MultiClassHead", {"n_classes": 3}, 3),
        "price": ("RegressionHead", {"label_dimension": 2}, 2),
    }
    names = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=3, unique=True))
    heads = [
        (kinds[name][0], {**kinds[name][1], "name": name, "loss_reduction": reduction})
        for name in names
    ]
    if draw(st.booleans()):
        heads[0][1]["weight_column"] = "weight"
    arguments = {"heads": heads}
    if draw(st.booleans()):
        sizes = {"min_size": len(names), "max_size": len(names)}
        arguments["head_weights"] = draw(st.lists(floats(0.25, 3), **sizes))
    # One batch: outside of graphs the reference's metrics forget all batches but the last. And not
    # all weights are 0: its baselines of accuracy are then 0 in a MultiHead, 1 in a head alone.
    outer = (draw(st.integers(1, 5)),)
    of_head = {
        "click": class_ids(outer, 2, [np.int64], False),
        "kind": class_ids(outer, 3, [np.int64], False),
        "price": values(outer, 2, -8, 8),
    }
    given = draw(weights(outer))
    batch = {
        "logits": {name: draw(arrays((*outer, kinds[name][2]), -6, 6)) for name in names},
        "labels": {name: draw(of_head[name]) for name in names},
        "features": {"weight": given if np.sum(given) > 0 else np.ones_like(given)},
    }
    if draw(rarely):
        del batch[draw(st.sampled_from(["logits", "labels"]))][names[0]]
    elif draw(st.booleans()):
        batch["logits"] = np.concatenate([batch["logits"][name] for name in names], -1)
        if draw(rarely):
            batch["logits"] = batch["logits"][:, 1:]
    return {
        "head": "MultiHead",
        "arguments": arguments,
        "batches": [batch],
        "regularization_losses": draw(st.sampled_from([None, [0.5]])),
    }


SECOND_GENERATION = {
    "BinaryClassHead": binary_class,
    "MultiClassHead": multi_class,
    "MultiLabelHead": multi_label,
    "RegressionHead": regression,
    "PoissonRegressionHead": poisson_regression,
    "LogisticRegressionHead": logistic_regression,
    "MultiHead": multi_head,
}

_FIRST_GENERATION = {
    "binary_logistic_head_with_sigmoid_cross_entropy_loss": (
        [
            {"weight_column": "weight", "thresholds": [0.25, 0.5], "name": "some_head"},
            {"label_vocabulary": list(WORDS[:2]), "loss_fn": "hinge"},
            {},
        ],
        2,
        1,
    ),
    "multi_class_head_with_softmax_cross_entropy_loss": (
        [
            {"n_classes": 4, "weight_column": "weight"},
            {"n_classes": 4, "label_vocabulary": list(WORDS), "name": "some_head"},
            {"n_classes": 4, "loss_fn": "hinge"},
        ],
        4,
        4,
    ),
    "regression_head": (
        [
            {"label_dimension": 2, "weight_column": "weight", "name": "some_head"},
            {"label_dimension": 2, "inverse_link_fn": "exp"},
            {"label_dimension": 2, "loss_fn": "absolute", "weight_column": "weight"},
        ],
        0,
        2,
    ),
}
FIRST_GENERATION = tuple(_FIRST_GENERATION)


@st.composite
def first_generation(draw, head):
    """Draws a case of a head of TensorFlow 1; heads have few arguments, whose graphs are kept."""
    configurations, n_classes, dimension = _FIRST_GENERATION[head]
    arguments = dict(draw(st.sampled_from(configurations)))
    arguments["loss_reduction"] = draw(st.sampled_from(REDUCTIONS_V1[:2]))
    outer = (draw(st.integers(1, 5)),)
    if n_classes:
        words = "label_vocabulary" in arguments
        labels = draw(class_ids(outer, n_classes, [np.int64], words)).reshape(-1, 1)
    else:
        labels = draw(arrays((*outer, dimension), -8, 8))
    features = {}
    if "weight_column" in arguments:
        features["weight"] = draw(weights(outer)).astype(np.float32).reshape(-1, 1)
    batch = {
        "logits": draw(arrays((*outer, dimension), -6, 6)),
        "labels": labels,
        "features": features,
    }
    if draw(rarely):
        batch = spoiled(draw, batch, dimension, n_classes)
    if batch["labels"] is None:  # no placeholder could feed these
        batch["labels"] = labels
    return {"head": head, "arguments": arguments, "batches": [batch]}


def batch(**parts):
    """Returns a case of one batch of three examples."""
    logits = {1: [[2.0], [-1.0], [0.5]], 2: [[1, 2], [0, -1], [3, -1]]}
    logits[3] = [[1, 2, 0.5], [0, 0, 0], [3, -1, 2]]
    found = {"features": {"weight": np.array([[1.0], [2.0], [0.5]], np.float32)}, **parts}
    if "dimension" in found:
        found["logits"] = np.array(logits[found.pop("dimension")], np.float32)
    return [found]


IDS = np.array([[1], [0], [1]])
NAMES = np.array([["bee"], ["ant"], ["bee"]], object)
PAIRS = np.array([[1.0, 0.0], [2.0, 0.5], [0.0, 1.0]], np.float32)
NAMED = {"name": "some_head", "weight_column": "weight"}
VOCABULARY = {"label_vocabulary": ["ant", "bee"]}

SPECS = {
    "binary": ("BinaryClassHead", {"thresholds": [0.5]}, batch(dimension=1, labels=IDS)),
    "binary, named": (
        "BinaryClassHead",
        {**NAMED, **VOCABULARY, "loss_reduction": "sum"},
        batch(dimension=1, labels=NAMES),
    ),
    "multi-class": ("MultiClassHead", {"n_classes": 3}, batch(dimension=3, labels=IDS)),
    "multi-class, named": (
        "MultiClassHead",
        {**NAMED, "n_classes": 3, "label_vocabulary": ["ant", "bee", "cat"]},
        batch(dimension=3, labels=NAMES),
    ),
    "multi-label": (
        "MultiLabelHead",
        {"n_classes": 2, "thresholds": [0.5], "classes_for_class_based_metrics": [1]},
        batch(dimension=2, labels=np.array([[1, 0], [1, 1], [0, 0]])),
    ),
    "multi-label, named": (
        "MultiLabelHead",
        {**NAMED, **VOCABULARY, "n_classes": 2, "classes_for_class_based_metrics": ["bee"]},
        batch(dimension=2, labels=np.array([[1, 0], [1, 1], [0, 0]])),
    ),
    "regression": ("RegressionHead", {}, batch(dimension=1, labels=IDS)),
    "regression, named": (
        "RegressionHead",
        {**NAMED, "label_dimension": 2, "inverse_link_fn": "exp"},
        batch(dimension=2, labels=PAIRS),
    ),
    "poisson": ("PoissonRegressionHead", {}, batch(dimension=1, labels=IDS)),
    "logistic": ("LogisticRegressionHead", NAMED, batch(dimension=1, labels=IDS)),
    "several": (
        "MultiHead",
        {
            "heads": [("RegressionHead", {"name": "one"}), ("BinaryClassHead", {"name": "two"})],
            "head_weights": [1.0, 2.0],
        },
        batch(
            logits={name: np.array([[2.0], [-1.0], [0.5]], np.float32) for name in ("one", "two")},
            labels={"one": IDS, "two": IDS},
        ),
    ),
}

BINARY = "binary_logistic_head_with_sigmoid_cross_entropy_loss"
MULTI = "multi_class_head_with_softmax_cross_entropy_loss"
SPECS_V1 = {
    "binary": (BINARY, {"thresholds": [0.5]}, batch(dimension=1, labels=IDS)),
    "binary, named": (BINARY, {**NAMED, **VOCABULARY}, batch(dimension=1, labels=NAMES)),
    "multi-class": (MULTI, {"n_classes": 3}, batch(dimension=3, labels=IDS)),
    "multi-class, named": (
        MULTI,
        {**NAMED, "n_classes": 3, "label_vocabulary": ["ant", "bee", "cat"]},
        batch(dimension=3, labels=NAMES),
    ),
    "regression": ("regression_head", {}, batch(dimension=1, labels=IDS)),
    "regression, named": (
        "regression_head",
        {**NAMED, "label_dimension": 2, "inverse_link_fn": "exp"},
        batch(dimension=2, labels=PAIRS),
    ),
}

# Head, arguments, and words of the refusal. Labels, logits and weights are in the drawn cases.
REFUSED = [
    ("BinaryClassHead", {"loss_reduction": "none"}, "Invalid loss_reduction: none"),
    ("BinaryClassHead", {"loss_reduction": "bogus"}, "Invalid loss_reduction: bogus"),
    ("BinaryClassHead", {"thresholds": [0.5, 1.0]}, r"thresholds not in \(0, 1\)"),
    ("BinaryClassHead", {"label_vocabulary": "ab"}, "label_vocabulary should be a list"),
    ("BinaryClassHead", {"loss_fn": "without_labels"}, "loss_fn must contain argument: labels"),
    ("BinaryClassHead", {"loss_fn": "without_logits"}, "loss_fn must contain argument: logits"),
    ("BinaryClassHead", {"loss_fn": "another_argument"}, "loss_fn has unexpected args"),
    ("MultiClassHead", {"n_classes": None}, "n_classes cannot be None"),
    ("MultiClassHead", {"n_classes": 2}, "n_classes must be > 2"),
    ("RegressionHead", {"label_dimension": 0}, "Invalid label_dimension"),
]


def fixed():
    """Returns the requests to the reference that aren't drawn: kind and case by a name."""
    found = {}
    for kind, specs in (("graph", SPECS), ("first_generation_graph", SPECS_V1)):
        for name, (head, arguments, batches) in specs.items():
            case = {"head": head, "arguments": arguments, "batches": batches}
            found[f"{kind} {name}"] = (kind, case)
    for head in SECOND_GENERATION:
        found[f"parameters {head}"] = ("parameters", head)
    for number, (head, arguments, _) in enumerate(REFUSED):
        case = {"head": head, "arguments": arguments, "batches": []}
        found[f"refused {number}"] = ("eager", case)
    return found


def drawn(head):
    """Returns the kind of a head's drawn cases, and the strategy that draws them."""
    if head in SECOND_GENERATION:
        return "eager", SECOND_GENERATION[head]()
    return "first_generation", first_generation(head)
