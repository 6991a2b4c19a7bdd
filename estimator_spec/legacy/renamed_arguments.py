# SPDX-License-Identifier: Apache-2.0
"""Knows the arguments of TensorFlow's functions that later versions renamed or dropped."""

from __future__ import annotations

from typing import NamedTuple

from estimator_spec.legacy.name_rows import parse_table


class RenamedArgument(NamedTuple):
    """An argument that a later version renamed.

    Attributes:
        old: its former keyword.
        now: its present keyword; '' if there is none.
        since: the version that renamed it: 2, whose tensorflow.compat.v1 takes both, or 1.
    """

    old: str
    now: str
    since: int

    @property
    def reason(self) -> str:
        """Explanation for a program that passes the argument."""
        instead = f"use {self.now}" if self.now else "leave it out, or call tensorflow.compat.v1's"
        return f"has had no argument {self.old} since TensorFlow {self.since}.0: {instead}."


# The headings are versions; before the colons are former and present arguments, after them the
# functions, under their present names. Without a present name no other argument stands for one.
_TABLE = parse_table(
    """
    [1]
    tags=name values=tensor: summary.scalar
    tag=name: summary.histogram summary.image summary.audio
    max_images=max_outputs: summary.image
    concat_dim=axis: concat
    split_dim=axis num_split=num_or_size_splits: split
    t=x e=y: where

    [2]
    keep_dims=keepdims reduction_indices=axis:
      reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod
      reduce_sum math.reduce_all math.reduce_any math.reduce_logsumexp math.reduce_max
      math.reduce_mean math.reduce_min math.reduce_prod math.reduce_sum math.count_nonzero
      strings.reduce_join
    keep_dims=keepdims:
      norm linalg.norm nn.moments nn.sufficient_statistics nn.weighted_moments
    keep_dims=keepdims reduction_axes=axis: sparse.reduce_max sparse.reduce_sum
    dim=axis:
      expand_dims math.log_softmax math.softmax nn.log_softmax nn.softmax
      nn.softmax_cross_entropy_with_logits
    dimension=axis: argmax argmin math.argmax math.argmin
    squeeze_dims=axis: squeeze
    seq_dim=seq_axis batch_dim=batch_axis: reverse_sequence
    concat_dim=axis: sparse.concat
    split_dim=axis: sparse.split
    thresh=threshold: sparse.add
    fn1=true_fn fn2=false_fn strict: cond
    preferred_dtype=dtype_hint: convert_to_tensor
    tensor=input optimize: ones_like zeros_like
    string_tensor=input: strings.to_hash_bucket strings.to_number
    source=input: strings.split
    bytes=input_bytes: io.decode_raw
    box_ind=box_indices: image.crop_and_resize
    t=x msg=message: debugging.assert_all_finite
    targets=labels: nn.weighted_cross_entropy_with_logits
    value=input: nn.avg_pool nn.avg_pool2d nn.conv1d nn.max_pool
    value=input filter=filters: nn.conv2d_transpose nn.conv3d_transpose
    filter=filters: nn.conv2d nn.conv3d
    filter=filters dilation_rate=dilations: nn.convolution
    dilation_rate=dilations: nn.pool
    rate=dilations: nn.depthwise_conv2d nn.separable_conv2d
    filter=filters rates=dilations: nn.dilation2d
    kernel=filters rates=dilations: nn.erosion2d
    keep_prob: nn.dropout
    use_cudnn_on_gpu: nn.conv1d nn.conv2d
    partition_strategy:
      nn.embedding_lookup nn.embedding_lookup_sparse nn.nce_loss nn.safe_embedding_lookup_sparse
      nn.sampled_softmax_loss
    validate_indices: nn.embedding_lookup
    colocate_gradients_with_ops: gradients hessians
    verify_shape: constant constant_initializer initializers.constant
    return_same_structure: while_loop
    align_corners: image.resize
    merge_repeated: nn.ctc_beam_search_decoder
    default_name values: name_scope
    dtype:
      constant_initializer ones_initializer random_normal_initializer random_uniform_initializer
      zeros_initializer
    data: assert_equal assert_greater assert_less assert_rank debugging.assert_equal
    collections family: summary.audio summary.histogram summary.image summary.scalar
    tensor: summary.audio summary.image summary.scalar summary.text
    values: summary.histogram
    labels predictions: losses.mean_squared_error metrics.mean_squared_error
    """
)
# By function and former keyword.
ARGUMENTS = {
    (function, old): RenamedArgument(old, now, int(since))
    for since, arguments, function in _TABLE
    for old, _, now in (argument.partition("=") for argument in arguments)
}
# The last parts of the functions' names.
FUNCTIONS = frozenset(function.rpartition(".")[2] for function, _ in ARGUMENTS)


def find(function: str, keyword: str) -> RenamedArgument | None:
    """Returns what became of an argument that a function hasn't any more, or None.

    >>> find("tensorflow.reduce_sum", "keep_dims").now
    'keepdims'
    >>> find("tensorflow.compat.v1.reduce_sum", "keep_dims") is None
    True

    Args:
        function: its full name.
        keyword: the keyword of a call.
    """
    name = function.removeprefix("tensorflow.")
    is_v1 = name.startswith("compat.v1.")
    found = ARGUMENTS.get((name.removeprefix("compat.v1.").removeprefix("compat.v2."), keyword))
    return None if found is None or (is_v1 and found.since == 2) else found
