# SPDX-License-Identifier: Apache-2.0
"""Policies for invalid ids: negative ones, and those beyond the vocabulary.

| policy    | an invalid id                                                            |
|-----------|--------------------------------------------------------------------------|
| None      | as in the legacy system: depends on the lookup device                    |
| `"error"` | fails the step with an error that names column and id                    |
| `"drop"`  | is dropped with its weight, as if the input hadn't had it                |
| `"clip"`  | becomes the nearest valid id: 0, or the vocabulary size - 1              |
| `"mod"`   | becomes its remainder modulo the vocabulary size, which isn't negative   |
| an int r  | becomes row r, a default row                                             |

A policy is applied to the ids before the device of the lookup gets them, so that the result is the
same on every device. Entries -1 and "" of dense input are missing, not invalid.
"""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import tensorflow as tf

from tpu_columns import placement, shared_state
from tpu_columns.checks import is_int

tf1 = tf.compat.v1

Policy: TypeAlias = "str | int | None"

NAMES = ("error", "drop", "clip", "mod")


class _Column(Protocol):
    """A TPU embedding column."""

    @property
    def name(self) -> str: ...

    @property
    def invalid_ids(self) -> Policy: ...

    def get_embedding_table_size(self) -> tuple[int, int]: ...


def check_policy(policy: Policy, owner: str, num_rows: int | None = None) -> Policy:
    """Checks a policy and returns it.

    Args:
        policy: 'error', 'drop', 'clip', 'mod', the number of a default row, or None.
        owner: the object that has the policy, for the error message.
        num_rows: vocabulary size that a default row must fit in; None: unknown.

    Raises:
        ValueError: the policy is unknown, or the default row isn't in the vocabulary.

    >>> check_policy("clip", "column 'words'")
    'clip'
    """
    if policy is None or (isinstance(policy, str) and policy in NAMES):
        return policy
    if not is_int(policy) or int(policy) < 0:
        raise ValueError(
            f"invalid_ids of {owner} must be one of {', '.join(map(repr, NAMES))}, the number of a "
            f"default row (an int >= 0) or None; got {policy!r}."
        )
    if num_rows is not None and int(policy) >= num_rows:
        raise ValueError(
            f"invalid_ids of {owner} names row {policy} as the default row, but the vocabulary has "
            f"{num_rows} ids (0 to {num_rows - 1})."
        )
    return int(policy)


def using(policy: Policy) -> AbstractContextManager[None]:
    """Sets the policy of columns and features that have none of their own, in this context.

    Args:
        policy: a checked policy.
    """
    return shared_state.setting(shared_state.INVALID_IDS, policy)


@dataclasses.dataclass(frozen=True)
class IdRule:
    """A policy for the ids of one feature.

    Attributes:
        policy: 'error', 'drop', 'clip', 'mod' or the number of a default row.
        num_rows: vocabulary size.
        name: name of the column or feature, for errors and the summary.
    """

    policy: str | int
    num_rows: int
    name: str

    def apply(
        self, ids: tf.SparseTensor, weights: tf.SparseTensor | None
    ) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
        """Returns ids and weights without invalid ids.

        Args:
            ids: integers, of any shape.
            weights: a number for each id, or None.

        Returns:
            Valid ids, and their weights; int64 where the policy computes new ids.
        """
        with tf.name_scope("invalid_ids"):
            valid = self._find_valid(ids.values)
            if self.policy == "drop":
                kept = None if weights is None else tf.sparse.retain(weights, valid)
                return tf.sparse.retain(ids, valid), kept
            return ids.with_values(self._replace(ids.values, valid)), weights

    def apply_dense(self, ids: tf.Tensor, missing: tf.Tensor) -> tf.Tensor:
        """Returns a matrix of ids without invalid ids; negative where one is missing.

        Args:
            ids: integers, [B, n].
            missing: bool, [B, n]: entries that aren't ids.
        """
        with tf.name_scope("invalid_ids"):
            # Missing entries aren't counted.
            ids = tf1.where(missing, tf.zeros_like(ids), ids)
            valid = self._find_valid(ids)
            if self.policy == "drop":
                missing |= ~valid
            else:
                ids = self._replace(ids, valid)
            return tf1.where(missing, tf.fill(tf.shape(ids), tf.constant(-1, ids.dtype)), ids)

    def _find_valid(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns which ids are valid; in training, adds a summary of the number of others."""
        size = tf.constant(self.num_rows, tf.int64)
        numbers = tf.cast(ids, tf.int64)
        valid = (numbers >= 0) & (numbers < size)
        graph = tf1.get_default_graph()
        has_no_summaries = tf.executing_eagerly() or graph.building_function
        if placement.updates_tables() and not has_no_summaries:  # a function can't have summaries
            count = tf.reduce_sum(tf.cast(~valid, tf.int64))
            with tf1.name_scope(None):
                tf1.summary.scalar(f"invalid_ids/{self.name}", count)
        return valid

    def _replace(self, ids: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """Returns ids with valid ones in place of others, or fails."""
        if self.policy == "error":
            invalid = tf.boolean_mask(ids, ~valid)
            text = (
                f"Column {self.name!r}: ids outside of the vocabulary, whose size is "
                f"{self.num_rows} (valid: 0 to {self.num_rows - 1}):"
            )
            check = tf1.debugging.Assert(tf.reduce_all(valid), [text, invalid], summarize=3)
            with tf.control_dependencies([] if check is None else [check]):
                return tf.identity(ids)
        ids = tf.cast(ids, tf.int64)
        if self.policy == "clip":
            return tf.clip_by_value(ids, 0, self.num_rows - 1)
        if self.policy == "mod":
            return tf.math.floormod(ids, self.num_rows)
        return tf1.where(valid, ids, tf.fill(tf.shape(ids), tf.constant(self.policy, tf.int64)))


def rule_for_column(column: _Column) -> IdRule | None:
    """Returns the rule of a column: its own policy, or that of the context.

    Args:
        column: a TPU embedding column.
    """
    return rule_for_feature(column.name, column.get_embedding_table_size()[0], column.invalid_ids)


def rule_for_feature(name: str, num_rows: int, policy: Policy = None) -> IdRule | None:
    """Returns the rule of a feature, or None if there is no policy.

    Args:
        name: name of the feature or its column.
        num_rows: vocabulary size.
        policy: the feature's own policy; None takes that of the context.

    Raises:
        ValueError: the default row isn't in the vocabulary.
    """
    if policy is None:
        default = shared_state.INVALID_IDS.get()
        policy = check_policy(default, f"the estimator, for {name!r},", num_rows)
    return None if policy is None else IdRule(policy, num_rows, name)
