# SPDX-License-Identifier: Apache-2.0
"""Converts labels of classes to ids, and ids to labels."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core.export.export_outputs import ClassificationOutput
from estimator_spec.heads.inputs import verified
from estimator_spec.heads.keys import CLASSIFY_SIGNATURE, DEFAULT_SIGNATURE, PredictionKeys


def check_n_classes(n_classes: Any) -> int:
    """Returns the argument `n_classes` of a head as an int.

    Args:
        n_classes: a whole number, or a tensor or array of one whose value is known.

    Raises:
        ValueError: it is None, a tensor whose value isn't known yet, or no whole number.
    """
    if n_classes is None:
        raise ValueError("n_classes cannot be None")
    value = tf.get_static_value(n_classes) if tf.is_tensor(n_classes) else n_classes
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(
            f"n_classes must be a whole number whose value is known, got {n_classes!r}."
        ) from None


def check_two_or_more(n_classes: Any) -> int:
    """Returns the argument `n_classes` of a classifier as an int.

    Args:
        n_classes: as for `check_n_classes`.

    Raises:
        ValueError: as for `check_n_classes`, or there are fewer than two.
    """
    found = check_n_classes(n_classes)
    if found < 2:
        raise ValueError(f"n_classes must be >= 2: {found}.")
    return found


def check_vocabulary(label_vocabulary: Any, n_classes: int) -> None:
    """Checks the argument `label_vocabulary` of a head.

    Raises:
        ValueError: it is neither a list nor a tuple, hasn't one label for each class, or has one
            twice.
        TypeError: a label is no string.
    """
    if label_vocabulary is None:
        return
    if not isinstance(label_vocabulary, (list, tuple)):
        raise ValueError(
            f"label_vocabulary should be a list or a tuple. Given type: {type(label_vocabulary)}"
        )
    if len(label_vocabulary) != n_classes:
        raise ValueError(
            '"label_vocabulary" does not have "n_classes" items. Length of label_vocabulary must '
            f"be n_classes ({n_classes}). Given: {len(label_vocabulary)}"
        )
    seen: set[bytes] = set()
    for label in label_vocabulary:
        if not isinstance(label, (str, bytes)):
            raise TypeError(
                "label_vocabulary must be a list of strings: expected string, but got "
                f"{label!r} of type {type(label).__name__!r}. Class ids need no vocabulary."
            )
        if tf.compat.as_bytes(label) in seen:
            raise ValueError(
                f"label_vocabulary has the label {label!r} twice. Each class needs a label of its "
                f"own. Given: {label_vocabulary!r}"
            )
        seen.add(tf.compat.as_bytes(label))


def labels_to_ids(labels: Any, label_vocabulary: Any) -> Any:
    """Returns the class ids of labels of any shape, int64; -1 for a label that no class has.

    Args:
        labels: integer ids, or strings with a vocabulary.
        label_vocabulary: the classes' labels, or None.

    Raises:
        ValueError: the labels are neither.
    """
    if label_vocabulary is None:
        if not labels.dtype.is_integer:
            raise ValueError(
                f"Labels dtype should be integer. Instead got {labels.dtype}. Pass class ids, or "
                "string labels with a label_vocabulary."
            )
        return tf.cast(labels, tf.int64)
    if labels.dtype != tf.string:
        raise ValueError(
            f"Labels dtype should be string if there is a vocabulary. Instead got {labels.dtype}"
        )
    return vocabulary_table(label_vocabulary).lookup(labels)


def vocabulary_table(label_vocabulary: Any) -> Any:
    """Returns a lookup table from the classes' labels to their ids; -1 for any other label.

    Args:
        label_vocabulary: the labels, in the order of ids.
    """
    initializer = tf.lookup.KeyValueTensorInitializer(
        tf.constant(list(label_vocabulary), tf.string),
        tf.range(len(label_vocabulary), dtype=tf.int64),
    )
    return tf.lookup.StaticHashTable(initializer, -1, name="class_id_lookup")


def check_range(
    ids: Any, n_classes: int, label_vocabulary: Any = None, words: str = "Labels must be"
) -> Any:
    """Returns the ids, after a check that classes have them: at once, or when the graph runs.

    Args:
        ids: class ids of any shape.
        n_classes: number of classes.
        label_vocabulary: the classes' labels, for the message; or None.
        words: beginning of the message.

    Raises:
        ValueError: no class has an id that is known at once.
    """
    too_low = f"{words} >= 0"
    if label_vocabulary is not None:
        known = [tf.compat.as_str_any(label) for label in label_vocabulary]
        shown = str(known) if n_classes <= 10 else f"{known[:5]}, … ({n_classes} labels)"
        too_low += f": -1 is a label that isn't in label_vocabulary, {shown}"
    with tf.name_scope("check_label_range"):
        highest = tf.cast(n_classes - 1, ids.dtype)
        # Key words of TensorFlow's own heads.
        in_words = n_classes if tf.executing_eagerly() else "n_classes"
        return verified(
            ids,
            lambda: tf.debugging.assert_less_equal(
                ids, highest, message=f"{words} <= {in_words} - 1 ({n_classes - 1})"
            ),
            lambda: tf.debugging.assert_non_negative(ids, message=too_low),
        )


def class_strings(n_classes: int, label_vocabulary: Any) -> Any:
    """Returns the labels of all classes, a string tensor `[n_classes]`.

    Args:
        n_classes: number of classes.
        label_vocabulary: the labels; without one, the ids as strings.
    """
    if label_vocabulary is not None:
        return tf.constant(list(label_vocabulary), tf.string)
    return tf.strings.as_string(tf.range(n_classes))


def ids_to_strings(ids: Any, label_vocabulary: Any) -> Any:
    """Returns the labels of ids, a string tensor of the same shape.

    Args:
        ids: class ids.
        label_vocabulary: the classes' labels; without one, the ids as strings.
    """
    if label_vocabulary is None:
        return tf.strings.as_string(ids, name="str_classes")
    return tf.gather(
        class_strings(len(label_vocabulary), label_vocabulary), ids, name="class_strings"
    )


def repeated_for_each_example(row: Any, logits: Any) -> Any:
    """Returns a row for each example of a batch, `[B, n]`.

    Args:
        row: tensor `[n]`.
        logits: tensor whose first dimension is the batch.
    """
    return tf.tile(row[tf.newaxis], [tf.shape(logits)[0], 1])


def classify_outputs(
    predictions: dict[str, Any], n_classes: int, label_vocabulary: Any
) -> dict[str, Any]:
    """Returns an output of Classify requests under the default name and its own.

    It has a score and a label for each class.

    Args:
        predictions: all predictions of the head; with probabilities `[B, n_classes]`.
        n_classes: number of classes.
        label_vocabulary: the labels, or None.
    """
    scores = predictions[PredictionKeys.PROBABILITIES]
    labels = repeated_for_each_example(class_strings(n_classes, label_vocabulary), scores)
    output = ClassificationOutput(scores=scores, classes=labels)
    return {DEFAULT_SIGNATURE: output, CLASSIFY_SIGNATURE: output}


def class_predictions(
    ids: Any, logits: Any, n_classes: int, label_vocabulary: Any
) -> dict[str, Callable[[], Any]]:
    """Returns functions that make the predictions that are about classes, by name.

    Args:
        ids: the predicted class ids `[D0, …, DN, 1]`.
        logits: tensor `[D0, …, DN, logits_dimension]`.
        n_classes: number of classes.
        label_vocabulary: the labels, or None.
    """

    def of_all(row: Any) -> Any:
        return repeated_for_each_example(row, logits)

    return {
        PredictionKeys.CLASS_IDS: lambda: ids,
        PredictionKeys.CLASSES: lambda: ids_to_strings(ids, label_vocabulary),
        PredictionKeys.ALL_CLASS_IDS: lambda: of_all(tf.range(n_classes)),
        PredictionKeys.ALL_CLASSES: lambda: of_all(class_strings(n_classes, label_vocabulary)),
    }
