# SPDX-License-Identifier: Apache-2.0
"""Names that both APIs of TensorFlow have, and that are something else in each.

`tf.nn.dropout(x, 0.9)` keeps nine of ten elements in a program of TensorFlow 1, one of ten in one
of TensorFlow 2. A test compares the table with the installed TensorFlow.
"""

from __future__ import annotations

from estimator_spec.legacy.name_rows import parse_table

_TABLE = """
tensorflow: DeviceSpec Variable VariableAggregation argmax argmin assert_equal assert_greater
    assert_less assert_rank batch_to_space boolean_mask case cond constant constant_initializer
    convert_to_tensor device executing_eagerly expand_dims foldl foldr gather gather_nd gradients
    hessians map_fn name_scope norm ones_initializer ones_like pad random_normal_initializer
    random_uniform_initializer reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean
    reduce_min reduce_prod reduce_sum reverse_sequence scalar_mul scan shape size space_to_batch
    squeeze transpose tuple variable_creator_scope where while_loop zeros_initializer zeros_like
autograph: to_code to_graph
data: Dataset FixedLengthRecordDataset Iterator TFRecordDataset TextLineDataset
data.experimental: Counter CsvDataset RandomDataset SqlDataset choose_from_datasets
    make_batched_features_dataset make_csv_dataset sample_from_datasets
debugging: assert_all_finite assert_equal assert_greater assert_greater_equal assert_integer
    assert_less assert_less_equal assert_near assert_negative assert_non_negative
    assert_non_positive assert_none_equal assert_positive assert_rank assert_rank_at_least
    assert_rank_in assert_scalar assert_shapes assert_type
distribute: MirroredStrategy OneDeviceStrategy ReplicaContext Strategy StrategyExtended
distribute.experimental: CentralStorageStrategy MultiWorkerMirroredStrategy
    ParameterServerStrategy TPUStrategy
estimator: BaselineClassifier BaselineEstimator BaselineRegressor DNNClassifier DNNEstimator
    DNNRegressor DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor
    LinearClassifier LinearEstimator LinearRegressor
feature_column: categorical_column_with_vocabulary_file make_parse_example_spec
image: ResizeMethod crop_and_resize draw_bounding_boxes extract_glimpse resize
    sample_distorted_bounding_box
initializers: constant glorot_normal glorot_uniform he_normal he_uniform identity lecun_normal
    lecun_uniform ones orthogonal random_normal random_uniform truncated_normal variance_scaling
    zeros
io: decode_csv decode_raw parse_example parse_single_example serialize_many_sparse
    serialize_sparse
keras.backend: name_scope
keras.callbacks: TensorBoard
keras.estimator: model_to_estimator
keras.initializers: Constant Identity Ones Orthogonal RandomNormal RandomUniform TruncatedNormal
    VarianceScaling Zeros constant glorot_normal glorot_uniform he_normal he_uniform identity
    lecun_normal lecun_uniform ones orthogonal random_normal random_uniform truncated_normal zeros
keras.layers: BatchNormalization DenseFeatures GRU GRUCell LSTM LSTMCell
keras.optimizers: Adadelta Adagrad Adam Adamax Ftrl Nadam Optimizer RMSprop SGD
linalg: norm
lookup: StaticHashTable StaticVocabularyTable
losses: Reduction mean_squared_error
math: argmax argmin bincount confusion_matrix count_nonzero in_top_k log_softmax reduce_all
    reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum
    scalar_mul softmax
metrics: mean_absolute_error mean_squared_error
nn: avg_pool avg_pool2d batch_norm_with_global_normalization conv1d conv2d conv2d_transpose conv3d
    conv3d_transpose convolution crelu ctc_beam_search_decoder ctc_loss depth_to_space
    depthwise_conv2d dilation2d dropout embedding_lookup embedding_lookup_sparse erosion2d
    fractional_avg_pool fractional_max_pool in_top_k log_softmax max_pool max_pool_with_argmax
    moments nce_loss pool safe_embedding_lookup_sparse sampled_softmax_loss separable_conv2d
    sigmoid_cross_entropy_with_logits softmax softmax_cross_entropy_with_logits space_to_batch
    space_to_depth sparse_softmax_cross_entropy_with_logits sufficient_statistics
    weighted_cross_entropy_with_logits weighted_moments
random: poisson
saved_model: contains_saved_model load
sparse: add concat reduce_max reduce_sum segment_mean segment_sqrt_n segment_sum split
strings: length reduce_join split substr to_hash_bucket to_number
summary: audio histogram image scalar text
test: assert_equal_graph_def compute_gradient
train: Checkpoint
"""

# By module, relative to `tensorflow`.
NAMES: dict[str, set[str]] = {}
for _, (_module,), _name in parse_table(_TABLE):
    NAMES.setdefault(_module.removeprefix("tensorflow"), set()).add(_name)
