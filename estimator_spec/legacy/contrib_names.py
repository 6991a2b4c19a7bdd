# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: `tf.contrib` outside of TPU code, and names that need TensorBoard."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import Group, Library, When

# Other names of tensorflow.contrib that TPU programs import.
CONTRIB = (
    Group(
        "contrib.training contrib.training.python.training.hparam",
        "estimator_spec.legacy.hparams",
        "HParams",
    ),
    Group(
        "contrib.training contrib.training.python.training.evaluation",
        "tensorflow.train",
        "checkpoints_iterator",
    ),
    Group(
        "contrib.summary contrib.summary.summary",
        "estimator_spec._tensorflow.private.summary_ops",
        "SummaryWriter all_summary_ops=all_v2_summary_ops always_record_summaries audio "
        "create_summary_file_writer eval_dir flush generic graph histogram image import_event "
        "initialize never_record_summaries record_summaries_every_n_global_steps scalar "
        "should_record_summaries summary_writer_initializer_op",
    ),
    Group(
        "contrib.summary contrib.summary.summary",
        "estimator_spec.legacy.summaries",
        "create_file_writer",
    ),
    Group(
        "contrib.data",
        "tensorflow.data.experimental",
        "AUTOTUNE Counter CsvDataset Optional RandomDataset Reducer SqlDataset TFRecordWriter "
        "bucket_by_sequence_length choose_from_datasets copy_to_device dense_to_sparse_batch "
        "enumerate_dataset get_next_as_optional get_single_element group_by_reducer "
        "group_by_window ignore_errors make_batched_features_dataset make_csv_dataset "
        "make_saveable_from_iterator map_and_batch parallel_interleave parse_example_dataset "
        "prefetch_to_device rejection_resample sample_from_datasets scan shuffle_and_repeat "
        "unbatch unique",
    ),
    Group(
        "contrib.data",
        "estimator_spec.legacy.contrib",
        "batch_and_drop_remainder padded_batch_and_drop_remainder sloppy_interleave",
    ),
    Group(
        "contrib.lookup contrib.lookup.lookup_ops",
        "estimator_spec._tensorflow.private.lookup_ops",
        "FastHashSpec HashTable=StaticHashTableV1 HasherSpec IdTableWithHashBuckets "
        "InitializableLookupTableBase KeyValueTensorInitializer LookupInterface "
        "MutableDenseHashTable=DenseHashTable MutableHashTable StrongHashSpec TableInitializerBase "
        "TextFileIdTableInitializer TextFileIndex TextFileInitializer "
        "TextFileStringTableInitializer index_table_from_file index_to_string_table_from_file",
    ),
    Group(
        "contrib.lookup contrib.lookup.lookup_ops",
        "estimator_spec.legacy.contrib",
        "index_table_from_tensor index_to_string_table_from_tensor",
    ),
    Group(
        "contrib.framework",
        "tensorflow.compat.v1.train",
        "create_global_step get_global_step get_or_create_global_step init_from_checkpoint "
        "list_variables load_checkpoint load_variable",
    ),
    Group(
        "contrib.framework",
        "tensorflow",
        "CriticalSection TensorSpec argsort broadcast_to is_tensor nest sort",
    ),
    Group("contrib.framework", "tensorflow.compat.v1", "py_func"),
    Group(
        "contrib.layers contrib.layers.python.layers contrib.layers.python.layers.layers",
        "estimator_spec.legacy.contrib",
        "layer_norm",
    ),
    Group(
        "contrib.layers contrib.layers.python.layers contrib.layers.python.layers.initializers",
        "estimator_spec.legacy.contrib",
        "variance_scaling_initializer xavier_initializer "
        "xavier_initializer_conv2d=xavier_initializer",
    ),
    Group(
        "contrib.layers contrib.layers.python.layers contrib.layers.python.layers.regularizers",
        "estimator_spec.legacy.contrib",
        "l1_regularizer l2_regularizer",
    ),
    Group(
        "contrib.metrics contrib.metrics.python.ops.metric_ops",
        "estimator_spec.legacy.contrib_metrics",
        "accuracy aggregate_metric_map aggregate_metrics streaming_accuracy streaming_auc "
        "streaming_false_negatives streaming_false_negatives_at_thresholds "
        "streaming_false_positives streaming_false_positives_at_thresholds "
        "streaming_mean_absolute_error streaming_mean_cosine_distance streaming_mean_iou "
        "streaming_mean_relative_error streaming_mean_squared_error streaming_precision "
        "streaming_precision_at_thresholds streaming_recall streaming_recall_at_k "
        "streaming_recall_at_thresholds streaming_root_mean_squared_error "
        "streaming_sensitivity_at_specificity streaming_sparse_average_precision_at_k "
        "streaming_sparse_precision_at_k streaming_sparse_recall_at_k "
        "streaming_specificity_at_sensitivity streaming_true_negatives "
        "streaming_true_negatives_at_thresholds streaming_true_positives "
        "streaming_true_positives_at_thresholds",
    ),
    Group(
        "contrib.metrics contrib.metrics.python.ops.metric_ops",
        "tensorflow.compat.v1.metrics",
        "streaming_mean=mean streaming_mean_tensor=mean_tensor "
        "streaming_percentage_less=percentage_below",
    ),
    Group("contrib.metrics", "tensorflow.math", "confusion_matrix"),
    Group(
        "contrib.metrics",
        "tensorflow.sets",
        "set_difference=difference set_intersection=intersection set_size=size set_union=union",
    ),
    Group(
        "contrib.rnn contrib.rnn.python.ops.core_rnn_cell contrib.rnn.python.ops.rnn_cell "
        "tf_py.ops.rnn_cell",
        "estimator_spec.legacy.contrib_rnn",
        "BasicLSTMCell BasicRNNCell DeviceWrapper DropoutWrapper GRUCell LSTMCell LSTMStateTuple "
        "MultiRNNCell RNNCell ResidualWrapper",
    ),
    Group(
        "contrib.rnn contrib.rnn.python.ops.core_rnn",
        "tensorflow.compat.v1.nn",
        "static_bidirectional_rnn static_rnn static_state_saving_rnn",
    ),
    Group(
        "contrib.rnn contrib.rnn.python.ops.rnn",
        "estimator_spec.legacy.contrib_rnn",
        "stack_bidirectional_dynamic_rnn",
    ),
    Group(
        "contrib.crf contrib.crf.python.ops.crf",
        "estimator_spec.legacy.contrib_crf",
        "crf_binary_score crf_decode crf_log_likelihood crf_log_norm crf_sequence_score "
        "crf_unary_score viterbi_decode",
    ),
    Group(
        "contrib.autograph",
        "tensorflow.autograph",
        "set_verbosity to_code to_graph trace",
    ),
    Group(
        "contrib.feature_column",
        "tensorflow.feature_column",
        "sequence_categorical_column_with_hash_bucket sequence_categorical_column_with_identity "
        "sequence_categorical_column_with_vocabulary_file "
        "sequence_categorical_column_with_vocabulary_list sequence_numeric_column",
    ),
    Group("contrib.feature_column", "tpu_columns", "sequence_input_layer"),
    Group(
        "contrib.util",
        "tensorflow",
        "constant_value=get_static_value make_ndarray make_tensor_proto",
    ),
)

# TensorFlow up to 2.20 installed TensorBoard.
SUMMARIES = (
    Group(
        "tf2.summary",
        "estimator_spec.legacy.summaries",
        "scalar",
        when=When.WITHOUT_TENSORBOARD,
    ),
)

# Names that moved between TensorFlow's own private modules. tf_slim reads them, and so do programs.
MOVED = (
    Group("tf_py.framework.ops", "tensorflow", "IndexedSlices Tensor"),
    Group("tf_py.ops.array_ops", "tensorflow.compat.v1", "stack unstack"),
    Group("tf_py.ops.control_flow_ops", "tensorflow.compat.v1", "Assert case cond while_loop"),
    Group("tf_py.ops.variable_scope", "tensorflow.compat.v1", "variable=Variable"),
)

# tf_slim is tf.contrib's layers, framework, metrics and losses in a package of their own. If it is
# installed, it has what isn't in the tables above.
LIBRARIES = (
    Library("contrib.slim contrib.slim.python.slim", "tf_slim"),
    Library("contrib.slim.nets contrib.slim.python.slim.nets", "tf_slim.nets"),
    Library("contrib.slim.data contrib.slim.python.slim.data", "tf_slim.data"),
    Library(
        "contrib.layers contrib.layers.python.layers contrib.layers.python.ops", "tf_slim.layers"
    ),
    Library("contrib.layers.python.layers.layers", "tf_slim.layers.layers"),
    Library("contrib.layers.python.layers.initializers", "tf_slim.layers.initializers"),
    Library("contrib.layers.python.layers.regularizers", "tf_slim.layers.regularizers"),
    # The package has functions and modules of one name; `from … import` gave the functions.
    Library(
        "contrib.framework contrib.framework.python.ops",
        "tf_slim.ops.arg_scope tf_slim.ops.variables tf_slim.ops.framework_ops tf_slim.ops",
    ),
    Library("contrib.framework.python.ops.ops", "tf_slim.ops.framework_ops"),
    Library("contrib.metrics", "tf_slim.metrics"),
    Library("contrib.metrics.python.ops.metric_ops", "tf_slim.metrics.metric_ops"),
    Library("contrib.losses contrib.losses.python.losses", "tf_slim.losses"),
    Library("contrib.training", "tf_slim.training.training tf_slim.training.evaluation"),
    Library("contrib.training.python.training.training", "tf_slim.training.training"),
    Library("contrib.training.python.training.evaluation", "tf_slim.training.evaluation"),
    Library("contrib.tensorboard.plugins.projector", "tensorboard.plugins.projector"),
)
