"""Keras 3 model of the test combined, and the reading of its features.

`preprocess` reads raw features by TensorFlow ops, in tf.data or for serving. `build_model` makes a
model over the ids, weights and numbers that it returns: pure Keras 3, for any backend. Made by
`python -m estimator_spec to-keras`; it is yours, and needs keras, keras_rs and tensorflow only.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import keras_rs
import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = HERE / "weights.keras"

# How feature columns read features.


def to_sparse(feature: Any) -> tf.SparseTensor:
    """Returns a categorical feature as a sparse tensor.

    "" and -1 of a dense tensor mean that there is no value; in a sparse or ragged one they are
    values.
    """
    if isinstance(feature, tf.RaggedTensor):
        return feature.to_sparse()
    if isinstance(feature, tf.SparseTensor):
        return feature
    feature = as_matrix(feature)
    missing = tf.constant("") if feature.dtype == tf.string else tf.cast(-1, feature.dtype)
    places = tf.where(feature != missing)
    return tf.SparseTensor(places, tf.gather_nd(feature, places), tf.shape(feature, tf.int64))


def as_matrix(feature: Any) -> tf.Tensor:
    """Returns a dense feature with a second axis, if it has none."""
    feature = tf.convert_to_tensor(feature)
    return feature[:, tf.newaxis] if feature.shape.rank == 1 else feature


def hash_ids(values: tf.SparseTensor, buckets: int) -> tf.SparseTensor:
    """Returns the hash buckets of strings or integers."""
    texts = values.values
    if texts.dtype != tf.string:
        texts = tf.as_string(texts)
    return values.with_values(tf.strings.to_hash_bucket_fast(texts, buckets))


def vocabulary_table(initializer: Any, oov_buckets: int = 0, default: int = -1) -> Any:
    """Returns the lookup table of a vocabulary.

    Args:
        initializer: of its words and their ids.
        oov_buckets: number of ids after the vocabulary's, by hash, for other words.
        default: the id of other words, if there are no such buckets.
    """
    if oov_buckets:
        return tf.lookup.StaticVocabularyTable(initializer, oov_buckets)
    return tf.lookup.StaticHashTable(initializer, default)


def words_in_order(words: Sequence[str] | Sequence[bytes] | Sequence[int]) -> Any:
    """Returns the initializer of a vocabulary whose ids are the positions of its words."""
    keys = tf.constant(words, tf.int64 if isinstance(words[0], int) else tf.string)
    return tf.lookup.KeyValueTensorInitializer(keys, tf.range(len(words), dtype=tf.int64))


def words_in_file(path: str, size: int, dtype: str = "string") -> Any:
    """Returns the initializer of a vocabulary that is the first lines of a file."""
    whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    words = tf.as_dtype(dtype)
    return tf.lookup.TextFileInitializer(path, words, whole, tf.int64, number, size)


def vocabulary_ids(values: tf.SparseTensor, table: Any) -> tf.SparseTensor:
    """Returns the ids of words."""
    words = values.values
    if words.dtype != tf.string:
        words = tf.cast(words, tf.int64)
    return values.with_values(table.lookup(words))


def numbers(feature: Any, size: int, normalizer: Callable[[Any], Any] | None = None) -> tf.Tensor:
    """Returns a numeric feature, [B, size]; the normalizer gets the feature as it is."""
    feature = as_matrix(feature)
    if normalizer is not None:
        feature = normalizer(feature)
    return tf.reshape(tf.cast(feature, tf.float32), [-1, size])


def buckets_of(values: tf.Tensor, boundaries: Sequence[float]) -> tf.Tensor:
    """Returns the bucket of each number, int32, [B, k]; NaN is in the last one."""
    return tf.raw_ops.Bucketize(input=values, boundaries=boundaries)


def bucket_ids(buckets: tf.Tensor, size: int) -> tf.SparseTensor:
    """Returns buckets as ids: of the k numbers of an example, each has buckets of its own."""
    ids = tf.cast(buckets, tf.int64) + size * tf.range(buckets.shape[1], dtype=tf.int64)
    places = tf.where(tf.ones_like(ids, tf.bool))
    return tf.SparseTensor(places, tf.reshape(ids, [-1]), tf.shape(ids, tf.int64))


def cross_ids(parts: Sequence[Any], buckets: int, hash_key: int | None = None) -> tf.SparseTensor:
    """Returns the hash buckets of all combinations of an example's values.

    Args:
        parts: features, in which "" and -1 are values, and sparse ids.
        buckets: number of hash buckets.
        hash_key: key of the hash; None: TensorFlow's default.
    """
    tensors = [
        part.to_sparse()
        if isinstance(part, tf.RaggedTensor)
        else part
        if isinstance(part, tf.SparseTensor)
        else as_matrix(part)
        for part in parts
    ]
    return tf.sparse.cross_hashed(tensors, buckets, hash_key)


def weights_of(ids: tf.SparseTensor, weights: Any) -> tf.Tensor:
    """Returns the weights of ids: sparse ones in their order, dense ones by their places."""
    if isinstance(weights, tf.RaggedTensor):
        weights = weights.to_sparse()
    if isinstance(weights, tf.SparseTensor):
        return tf.cast(weights.values, tf.float32)
    return tf.cast(tf.gather_nd(as_matrix(weights), ids.indices), tf.float32)


def padded(
    name: str, ids: tf.SparseTensor, weights: Any = None, positive: bool = False, safe: bool = True
) -> dict[str, tf.Tensor]:
    """Returns `<name>_ids` and `<name>_weights`, both [B, n]; 0.0 where there is no id.

    Some optimizers change each row that is looked up: there the ids are others that are, anyway.

    Args:
        name: of the column.
        ids: [B, n], or [B, T, n] of steps; negative ones are left out.
        weights: the feature with their weights, or None for ones.
        positive: whether ids with weights <= 0 are left out, too.
        safe: whether row 0 is looked up for an example without ids, as TensorFlow's columns do.
    """
    shape = ids.dense_shape
    if not (safe and ids.shape.rank == 2 and ids.shape[-1]):
        # A place for each example that looks up a row; none if no example does.
        number = tf.reduce_prod(shape[:-1]) if safe else tf.size(ids.values, tf.int64)
        width = tf.where(number > 0, tf.maximum(shape[-1], 1), 0)
        shape = tf.concat([shape[:-1], [width]], 0)
    dense = tf.sparse.to_dense(tf.SparseTensor(ids.indices, ids.values, shape), -1)
    found, numbers = dense >= 0, 1.0
    if weights is not None:
        numbers = tf.sparse.to_dense(tf.SparseTensor(ids.indices, weights_of(ids, weights), shape))
    if positive:
        found &= numbers > 0.0
    others = tf.reduce_max(tf.where(found, dense, 0), -1 if safe else None, keepdims=True)
    return {
        f"{name}_ids": tf.where(found, dense, others),
        f"{name}_weights": tf.where(found, numbers, 0.0),
    }


def label_numbers(
    labels: Any,
    vocabulary: Any = None,
    size: int | None = None,
    largest: int | None = None,
) -> tf.Tensor:
    """Returns labels as numbers, [B, d].

    Args:
        labels: numbers, or words of the vocabulary.
        vocabulary: lookup table of words, or None.
        size: number of classes, of which an example has any: sparse labels are their ids.
        largest: the largest label, of those from 0 on; None: any number is one.
    """
    if isinstance(labels, tf.RaggedTensor):
        labels = labels.to_sparse()
    if isinstance(labels, tf.SparseTensor):
        if labels.dtype == tf.string:
            labels = vocabulary_ids(labels, vocabulary)
        labels = tf.sparse.to_indicator(labels, size)
    labels = as_matrix(labels)
    if labels.dtype == tf.string:
        labels = vocabulary.lookup(labels)
    found = tf.cast(labels, tf.float32)
    if largest is None:
        return found
    known = " and in the vocabulary" if vocabulary is not None else ""
    checks = [
        tf.debugging.assert_non_negative(found, f"Labels must be >= 0{known}"),
        tf.debugging.assert_less_equal(found, float(largest), f"Labels must be <= {largest}"),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.identity(found)


def class_predictions(
    class_ids: Any, labels: Sequence[str], head: str = ""
) -> dict[str, tf.Tensor]:
    """Returns an estimator's predictions of classes; those of a named head begin with `head`."""
    class_ids = tf.cast(class_ids, tf.int64)
    all_ids = tf.range(len(labels)) + tf.zeros_like(class_ids, tf.int32)
    found = {
        "class_ids": class_ids,
        "classes": tf.gather(labels, class_ids),
        "all_class_ids": all_ids,
        "all_classes": tf.gather(labels, all_ids),
    }
    return {f"{head}{key}": value for key, value in found.items()}


# The features of this model.


def age_normalizer(value: Any) -> Any:
    """Returns what the normalizer_fn of 'age' makes of a feature."""
    scale = 20.0
    MEAN = 40.0
    return (value - MEAN) / scale


def spent_normalizer(x: Any) -> Any:
    """Returns what the normalizer_fn of 'spent' makes of a feature."""
    return tf.math.log1p(tf.maximum(x, 0.0))


def vocabulary_path(name: str) -> str:
    """Returns the path of a vocabulary file."""
    return str(HERE / "vocabularies" / name)


CITY_VOCABULARY = vocabulary_table(words_in_file(vocabulary_path("city.txt"), 30), oov_buckets=2)
LABEL_VOCABULARY = vocabulary_table(words_in_order(["no", "yes"]))
TABLES = [CITY_VOCABULARY, LABEL_VOCABULARY]
CLASSES = ["no", "yes"]


def numeric(features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Returns the numbers of age, spent."""
    return {
        "age": numbers(features["age"], 1, age_normalizer),
        "spent": numbers(features["spent"], 1, spent_normalizer),
    }


def categories(features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Returns the ids of 3 columns, with their weights."""
    return {
        **padded("city", vocabulary_ids(to_sparse(features["city"]), CITY_VOCABULARY)),
        **padded(
            "items_weighted_by_counts_positive",
            hash_ids(to_sparse(features["items"]), 50),
            features["counts"],
            positive=True,
        ),
        **padded(
            "items_weighted_by_counts",
            hash_ids(to_sparse(features["items"]), 50),
            features["counts"],
        ),
    }


def buckets(features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Returns the buckets of age_bucketized."""
    return padded(
        "age_bucketized", bucket_ids(buckets_of(numbers(features["age"], 1), [20.0, 40.0, 60.0]), 4)
    )


def crosses(features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Returns the ids of crossed values with their weights: age_bucketized_X_city."""
    return padded(
        "age_bucketized_X_city",
        cross_ids(
            [
                features["city"],
                bucket_ids(buckets_of(numbers(features["age"], 1), [20.0, 40.0, 60.0]), 4),
            ],
            40,
        ),
    )


def preprocess(features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Returns the ids, weights and numbers of raw features, for tf.data and for the model."""
    return {**numeric(features), **categories(features), **buckets(features), **crosses(features)}


# The model.


def is_of_rows(gradient: Any) -> bool:
    """Returns whether a gradient is one of rows."""
    return isinstance(gradient, tf.IndexedSlices)


def sum_rows(gradient: Any) -> Any:
    """Returns a gradient with one row for each index, if it is one of rows."""
    if not is_of_rows(gradient):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


class RowsSummed:
    """Sums the gradients of a row that a batch has several times, as older optimizers do.

    Keras' optimizers take the square, and the norm, of each of them.
    """

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Updates variables by gradients."""
        summed = [sum_rows(gradient) for gradient in grads]
        super().apply(summed, trainable_variables)  # type: ignore[misc]

    def _clip_gradients(self, grads: Any) -> Any:
        """Returns clipped gradients; those of rows stay gradients of rows."""
        values = [gradient.values if is_of_rows(gradient) else gradient for gradient in grads]
        clipped = super()._clip_gradients(values)  # type: ignore[misc]
        return [
            tf.IndexedSlices(new, old.indices, old.dense_shape) if is_of_rows(old) else new
            for old, new in zip(grads, clipped, strict=True)
        ]


class RowsLookedUp(RowsSummed):
    """Updates the rows that a step looks up, and no others, on TensorFlow's backend."""

    slots: tuple[str, ...] = ()  # attributes with the slots of all variables

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates a variable and its slots."""
        number = self._get_variable_index(variable)  # type: ignore[attr-defined]
        lists = [getattr(self, name) for name in self.slots]
        changed = [variables[number] for variables in lists if variables]
        if not changed or not is_of_rows(gradient):
            super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
            return
        changed.append(variable)
        before = [tf.identity(keras.ops.convert_to_tensor(each)) for each in changed]
        super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
        rows = gradient.indices[:, tf.newaxis]
        for each, old in zip(changed, before, strict=True):
            new = tf.gather(keras.ops.convert_to_tensor(each), gradient.indices)
            kept = tf.tensor_scatter_nd_update(old, rows, new)
            self.assign(each, kept)  # type: ignore[attr-defined]


@keras.saving.register_keras_serializable("columns")
class Adagrad(RowsSummed, keras.optimizers.Adagrad):
    """Adagrad with one gradient a row, which adds epsilon to the root of the accumulator."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates a variable and its slots."""
        accumulator = self._accumulators[self._get_variable_index(variable)]
        self.assign_add(accumulator, keras.ops.square(gradient))
        change = keras.ops.multiply(learning_rate, gradient)
        root = keras.ops.add(keras.ops.sqrt(accumulator), self.epsilon)
        self.assign_sub(variable, keras.ops.divide(change, root))


@keras.saving.register_keras_serializable("columns")
class Ftrl(RowsLookedUp, keras.optimizers.Ftrl):
    """FTRL of the rows that a step looks up."""

    slots = ("_accumulators", "_linears")


@keras.saving.register_keras_serializable("columns")
class Bias(keras.layers.Layer):
    """Adds a bias: a linear model has one for all of its columns."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the bias."""
        self.bias = self.add_weight(shape=input_shape[-1:], initializer="zeros", name="bias")

    def call(self, inputs: Any) -> Any:
        """Returns the sum of inputs and bias."""
        return inputs + self.bias


@keras.saving.register_keras_serializable("columns")
class Sum(keras.layers.Layer):
    """Sums tensors, also those of no example, which `keras.layers.Add` takes for a bias."""

    def call(self, inputs: Any) -> Any:
        """Returns the sum."""
        total = inputs[0]
        for each in inputs[1:]:
            total = total + each
        return total


def wide_and_deep(deep: Any, wide: Any, wide_layers: list[str]) -> keras.optimizers.Optimizer:
    """Returns an optimizer that trains some layers by `wide`, and the others by `deep`."""
    paths = f"(.*/)?({'|'.join(wide_layers)})/[^/]*"
    return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(deep, {paths: wide}))


@keras.saving.register_keras_serializable("columns")
def prediction_value(labels: Any, predictions: Any, class_id: int | None = None) -> Any:
    """Returns what a model predicts, of one class or of all, for a metric of its mean."""
    return predictions if class_id is None else predictions[..., class_id]


@keras.saving.register_keras_serializable("columns")
def label_value(labels: Any, predictions: Any) -> Any:
    """Returns the labels, for a metric of their mean."""
    return labels


@keras.saving.register_keras_serializable("columns")
class AccuracyBaseline(keras.metrics.MeanMetricWrapper):
    """The accuracy of always predicting the class that is more frequent."""

    def result(self) -> Any:
        """Returns it, from the mean of the labels 0 and 1."""
        mean = super().result()
        return keras.ops.maximum(mean, 1.0 - mean)


def build_model(initializer: str = "uniform") -> keras.Model:
    """Returns a new model over what `preprocess` returns."""
    age = keras.Input((1,), dtype="float32", name="age")
    city_ids = keras.Input((None,), dtype="int64", name="city_ids")
    city_weights = keras.Input((None,), dtype="float32", name="city_weights")
    items_weighted_by_counts_positive_ids = keras.Input(
        (None,), dtype="int64", name="items_weighted_by_counts_positive_ids"
    )
    items_weighted_by_counts_positive_weights = keras.Input(
        (None,), dtype="float32", name="items_weighted_by_counts_positive_weights"
    )
    spent = keras.Input((1,), dtype="float32", name="spent")
    age_bucketized_ids = keras.Input((None,), dtype="int64", name="age_bucketized_ids")
    age_bucketized_weights = keras.Input((None,), dtype="float32", name="age_bucketized_weights")
    age_bucketized_X_city_ids = keras.Input(
        (None,), dtype="int64", name="age_bucketized_X_city_ids"
    )
    age_bucketized_X_city_weights = keras.Input(
        (None,), dtype="float32", name="age_bucketized_X_city_weights"
    )
    items_weighted_by_counts_ids = keras.Input(
        (None,), dtype="int64", name="items_weighted_by_counts_ids"
    )
    items_weighted_by_counts_weights = keras.Input(
        (None,), dtype="float32", name="items_weighted_by_counts_weights"
    )
    city_embedding = keras_rs.layers.EmbedReduce(
        32, 3, combiner="mean", name="city_embedding", embeddings_initializer=initializer
    )(city_ids, city_weights)
    items_weighted_by_counts_embedding = keras_rs.layers.EmbedReduce(
        50,
        2,
        combiner="sqrtn",
        name="items_weighted_by_counts_embedding",
        embeddings_initializer=initializer,
    )(items_weighted_by_counts_positive_ids, items_weighted_by_counts_positive_weights)
    input_layer = keras.layers.Concatenate(name="input_layer")(
        [age, city_embedding, items_weighted_by_counts_embedding, spent],
    )
    hiddenlayer_0 = keras.layers.Dense(6, activation="relu", name="hiddenlayer_0")(input_layer)
    deep_logits = keras.layers.Dense(1, name="logits_layer")(hiddenlayer_0)
    linear_age_bucketized_sum = keras_rs.layers.EmbedReduce(
        4, 1, combiner="sum", name="linear_age_bucketized", embeddings_initializer="zeros"
    )(age_bucketized_ids, age_bucketized_weights)
    linear_age_bucketized_X_city_sum = keras_rs.layers.EmbedReduce(
        40, 1, combiner="sum", name="linear_age_bucketized_X_city", embeddings_initializer="zeros"
    )(age_bucketized_X_city_ids, age_bucketized_X_city_weights)
    linear_city_sum = keras_rs.layers.EmbedReduce(
        32, 1, combiner="sum", name="linear_city", embeddings_initializer="zeros"
    )(city_ids, city_weights)
    linear_items_weighted_by_counts_sum = keras_rs.layers.EmbedReduce(
        50,
        1,
        combiner="sum",
        name="linear_items_weighted_by_counts",
        embeddings_initializer="zeros",
    )(items_weighted_by_counts_ids, items_weighted_by_counts_weights)
    linear_sum = Sum(name="linear_sum")(
        [
            linear_age_bucketized_sum,
            linear_age_bucketized_X_city_sum,
            linear_city_sum,
            linear_items_weighted_by_counts_sum,
        ],
    )
    linear_bias_added = Bias(name="linear_bias")(linear_sum)
    summed_logits = Sum(name="summed_logits")([deep_logits, linear_bias_added])
    two_class_logits = keras.ops.concatenate(
        [keras.ops.zeros_like(summed_logits), summed_logits], axis=-1
    )
    logistic = keras.ops.sigmoid(summed_logits)
    probabilities = keras.ops.softmax(two_class_logits)
    class_ids = keras.ops.expand_dims(keras.ops.argmax(two_class_logits, axis=-1), -1)
    inputs = {
        "age": age,
        "city_ids": city_ids,
        "city_weights": city_weights,
        "items_weighted_by_counts_positive_ids": items_weighted_by_counts_positive_ids,
        "items_weighted_by_counts_positive_weights": items_weighted_by_counts_positive_weights,
        "spent": spent,
        "age_bucketized_ids": age_bucketized_ids,
        "age_bucketized_weights": age_bucketized_weights,
        "age_bucketized_X_city_ids": age_bucketized_X_city_ids,
        "age_bucketized_X_city_weights": age_bucketized_X_city_weights,
        "items_weighted_by_counts_ids": items_weighted_by_counts_ids,
        "items_weighted_by_counts_weights": items_weighted_by_counts_weights,
    }
    outputs = {
        "logits": summed_logits,
        "logistic": logistic,
        "probabilities": probabilities,
        "class_ids": class_ids,
    }
    return keras.Model(inputs, outputs)


def compile_model(model: keras.Model) -> None:
    """Compiles a model with the estimator's loss, metrics and optimizer."""
    model.compile(
        optimizer=wide_and_deep(
            Adagrad(learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-07),
            Ftrl(learning_rate=0.005, learning_rate_power=-0.5, initial_accumulator_value=0.1),
            [
                "linear_age_bucketized",
                "linear_age_bucketized_X_city",
                "linear_city",
                "linear_items_weighted_by_counts",
                "linear_bias",
            ],
        ),
        loss={
            "logits": keras.losses.BinaryCrossentropy(
                from_logits=True, reduction="sum_over_batch_size"
            ),
        },
        weighted_metrics={
            "logits": [
                keras.metrics.BinaryCrossentropy(name="average_loss", from_logits=True),
                keras.metrics.MeanMetricWrapper(label_value, name="label/mean"),
                AccuracyBaseline(label_value, name="accuracy_baseline"),
            ],
            "class_ids": [
                keras.metrics.Accuracy(name="accuracy"),
                keras.metrics.Precision(name="precision"),
                keras.metrics.Recall(name="recall"),
            ],
            "logistic": [
                keras.metrics.MeanMetricWrapper(prediction_value, name="prediction/mean"),
                keras.metrics.AUC(name="auc"),
                keras.metrics.AUC(name="auc_precision_recall", curve="PR"),
            ],
        },
    )


def training_batch(features: Mapping[str, Any], labels: Any) -> tuple[Any, ...]:
    """Returns what `fit` and `evaluate` take of a batch, for the `map` of a dataset."""
    number = label_numbers(labels, vocabulary=LABEL_VOCABULARY, largest=1)
    targets = dict.fromkeys(["logits", "logistic", "probabilities", "class_ids"], number)
    return preprocess(features), targets


def with_classes(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the model's outputs, and the estimator's predictions of classes."""
    return {**outputs, **class_predictions(outputs["class_ids"], CLASSES)}
