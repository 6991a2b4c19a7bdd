# SPDX-License-Identifier: Apache-2.0
"""Calls heads on cases that are plain data, in the reference's process and in the tests' own.

A case has the head's name and arguments, and the batches; its outcome has the losses, metrics and
predictions, or the error. Both go through JSON, so that processes with different versions of NumPy
can exchange them.
"""

from __future__ import annotations

import inspect

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def encoded(value):
    """Returns a value as what JSON has; arrays keep dtype and shape."""
    if isinstance(value, dict):
        return {"dict": [[encoded(key), encoded(entry)] for key, entry in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [encoded(entry) for entry in value]}
    if isinstance(value, list):
        return [encoded(entry) for entry in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        kind = "str" if array.dtype.kind in "OSU" else array.dtype.name
        entries = [encoded(entry) for entry in array.ravel().tolist()]
        return {"array": entries, "dtype": kind, "shape": list(array.shape)}
    return value


def decoded(value):
    """Returns the value that `encoded` had."""
    if isinstance(value, list):
        return [decoded(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return {decoded(key): decoded(entry) for key, entry in value["dict"]}
    if "tuple" in value:
        return tuple(decoded(entry) for entry in value["tuple"])
    dtype = object if value["dtype"] == "str" else value["dtype"]
    return np.array(value["array"], dtype).reshape(value["shape"])


def sparse(labels):
    """Returns labels as tensors: a tuple is a sparse tensor, a dict has the labels of each head."""
    if isinstance(labels, dict):
        return {name: sparse(part) for name, part in labels.items()}
    if isinstance(labels, tuple):
        indices, values, shape = labels
        return tf.SparseTensor(np.reshape(indices, [-1, len(shape)]), values, shape)
    return labels


LOSS_FNS = {
    "hinge": lambda labels, logits: tf.reduce_mean(
        tf.nn.relu(1.0 - logits * (2.0 * tf.cast(labels, tf.float32) - 1.0)), -1, keepdims=True
    ),
    "absolute": lambda labels, logits, features: tf.abs(logits - tf.cast(labels, tf.float32)),
    "one_dimension_less": lambda labels, logits: tf.reduce_sum(logits, -1),
    "a_scalar": lambda labels, logits: tf.reduce_sum(logits),
    "without_labels": lambda logits: logits,
    "without_logits": lambda labels: labels,
    "another_argument": lambda labels, logits, name: logits,
}
LINKS = {"exp": tf.exp, "sigmoid": tf.sigmoid}


def made(heads, name, arguments):
    """Returns a head; its functions are named in the arguments, a MultiHead's heads are pairs."""
    arguments = dict(arguments)
    if isinstance(arguments.get("loss_fn"), str):
        arguments["loss_fn"] = LOSS_FNS[arguments["loss_fn"]]
    if isinstance(arguments.get("inverse_link_fn"), str):
        arguments["inverse_link_fn"] = LINKS[arguments["inverse_link_fn"]]
    if "heads" in arguments:
        arguments["heads"] = [made(heads, *head) for head in arguments["heads"]]
    return getattr(heads, name)(**arguments)


def eager_outcome(heads, case):
    """Returns loss, predictions and metrics after all batches, computed eagerly."""
    head = made(heads, case["head"], case["arguments"])
    regularization = case.get("regularization_losses")
    metrics = head.metrics(regularization_losses=regularization)
    results = {"loss": [], "predictions": []}
    for batch in case["batches"]:
        labels, features = sparse(batch["labels"]), batch["features"]
        logits = tf.nest.map_structure(tf.constant, batch["logits"])
        loss = head.loss(labels, logits, features=features, regularization_losses=regularization)
        results["loss"].append(loss.numpy())
        head.update_metrics(metrics, features, logits, labels, regularization_losses=regularization)
        predictions = head.predictions(logits)
        results["predictions"].append({key: value.numpy() for key, value in predictions.items()})
    results["metrics"] = {key: metric.result().numpy() for key, metric in metrics.items()}
    return results


def outcome(heads, case, compute=eager_outcome):
    """Returns the encoded results of a case, or the class and the words of the error."""
    try:
        return encoded(compute(heads, case))
    except Exception as error:
        # Without the files of this machine, where the op was made.
        lines = str(error).splitlines()
        lines = [line for line in lines if not line.lstrip().startswith('File "')]
        return {"error": type(error).__name__, "message": "\n".join(lines)}


def described(value):
    """Returns tensors as dtype and shape, in the structure of `value`."""
    if isinstance(value, dict):
        return {key: described(entry) for key, entry in value.items()}
    if isinstance(value, tf.Tensor):
        return (value.dtype.name, str(value.shape))
    for parts in (("scores", "classes"), ("value",), ("outputs",)):
        if all(hasattr(value, part) for part in parts):
            return {part: described(getattr(value, part)) for part in parts}
    return None


def fetched(value):
    """Returns the tensors of an export output, in a structure that a session fetches."""
    for parts in (("scores", "classes"), ("value",), ("outputs",)):
        if all(hasattr(value, part) for part in parts):
            tensors = {part: getattr(value, part) for part in parts}
            return {part: tensor for part, tensor in tensors.items() if tensor is not None}
    raise TypeError(value)


def training(step, weight, head):
    """Returns the optimizer of a head of TensorFlow 2, which must be Keras', or of TensorFlow 1."""
    if not head[0].isupper():
        return {"optimizer": tf1.train.GradientDescentOptimizer(0.01)}
    optimizer = tf.keras.optimizers.legacy.SGD(0.01)
    optimizer.iterations = step
    return {"optimizer": optimizer, "trainable_variables": [weight]}


def graph_outcome(heads, case):
    """Returns what `create_estimator_spec` makes of a batch in each mode, and the values of it."""
    results = {}
    for mode in ("infer", "eval", "train"):
        with tf.Graph().as_default(), tf1.Session() as session:
            step = tf1.train.get_or_create_global_step()
            (batch,) = case["batches"]
            weight = tf1.get_variable("weight", [], initializer=tf1.ones_initializer())
            logits = tf.nest.map_structure(weight.__mul__, batch["logits"])
            labels = tf.nest.map_structure(tf.constant, batch["labels"])
            # The only head without this argument.
            is_multi_head = case["head"] == "multi_head"
            options = {} if is_multi_head else {"regularization_losses": [0.5 * weight]}
            if mode == "train":
                options.update(training(step, weight, case["head"]))
            head = made(heads, case["head"], case["arguments"])
            spec = head.create_estimator_spec(
                features=tf.nest.map_structure(tf.constant, batch["features"]),
                mode=mode,
                logits=logits,
                labels=None if mode == "infer" else labels,
                **options,
            )
            session.run(tf1.global_variables_initializer())
            session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
            found = {"predictions": described(spec.predictions)}
            # Programs read these by the names of their tensors.
            read = [key for key in ("logistic", "probabilities") if key in spec.predictions]
            found["names"] = [spec.predictions[key].name for key in read]
            if mode == "infer":
                found["outputs"] = described(spec.export_outputs)
                served = {key: fetched(output) for key, output in spec.export_outputs.items()}
                found["served"] = session.run(served)
                found["predicted"] = session.run(spec.predictions)
            if mode == "eval":
                found["loss"] = session.run(spec.loss)
                pairs = spec.eval_metric_ops
                for _ in range(2):
                    session.run([update for _, update in pairs.values()])
                found["metrics"] = session.run({key: pair[0] for key, pair in pairs.items()})
            if mode == "train":
                found["losses"] = []
                # In two runs: one might read the weight before its update or after it.
                for _ in range(3):
                    found["losses"].append(session.run(spec.loss))
                    session.run(spec.train_op)
                found["weight"], found["step"] = session.run([weight, step])
                found["tags"] = session.run(tf1.get_collection(tf1.GraphKeys.SUMMARIES))
                found["tags"] = [tags_of(summary) for summary in found["tags"]]
            results[mode] = found
    return results


def tags_of(summary):
    """Returns the tags of a serialized summary."""
    return [value.tag for value in tf1.Summary.FromString(summary).value]


class GraphsOfTheFirstGeneration:
    """Graphs of heads of TensorFlow 1, one for each head, its arguments and kinds of input.

    Args:
        heads: functions that make the heads.
    """

    def __init__(self, heads):
        self._heads = heads
        self._graphs = {}

    def __call__(self, heads, case):
        """Returns loss, metrics and predictions of a case."""
        del heads
        (batch,) = case["batches"]
        inputs = {"logits": batch["logits"], "labels": batch["labels"], **batch["features"]}
        kinds = {key: (array.dtype.kind, array.ndim) for key, array in inputs.items()}
        key = repr((case["head"], case["arguments"], kinds))
        if key not in self._graphs:
            self._graphs[key] = self._build(case, inputs)
        graph, session, placeholders, spec = self._graphs[key]
        feed = {placeholders[name]: array for name, array in inputs.items()}
        with graph.as_default():
            session.run(self._graphs[key][3]["initializers"])
            session.run(spec["updates"], feed)
            return {
                "loss": session.run(spec["loss"], feed),
                "metrics": session.run(spec["metrics"]),
                "predictions": session.run(spec["predictions"], feed),
            }

    def _build(self, case, inputs):
        with tf.Graph().as_default() as graph:
            tf1.train.get_or_create_global_step()
            placeholders = {
                name: tf1.placeholder(
                    tf.string if array.dtype.kind == "O" else array.dtype, [None] * array.ndim
                )
                for name, array in inputs.items()
            }
            features = {key: placeholders[key] for key in case["batches"][0]["features"]}
            head = made(self._heads, case["head"], case["arguments"])
            spec = head.create_estimator_spec(
                features=features,
                mode="eval",
                logits=placeholders["logits"],
                labels=placeholders["labels"],
            )
            pairs = spec.eval_metric_ops
            parts = {
                "loss": spec.loss,
                "metrics": {key: value for key, (value, _) in pairs.items()},
                "updates": [update for _, update in pairs.values()],
                "predictions": spec.predictions,
                "initializers": tf1.local_variables_initializer(),
            }
            session = tf1.Session()
            session.run(tf1.tables_initializer())
        return graph, session, placeholders, parts


def parameters(function):
    """Returns name and default of each argument of a function or class."""
    return [
        (name, None if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
    ]
