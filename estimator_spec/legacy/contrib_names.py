# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: `tf.contrib` outside of TPU code, and names that need TensorBoard."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import When, parse_homes, parse_rows

# Other names of tensorflow.contrib that TPU programs import.
CONTRIB = parse_rows(
    """
    [estimator_spec.legacy.contrib.hparams]
    contrib.training contrib.training.python.training.hparam: HParams

    [tensorflow.train]
    contrib.training contrib.training.python.training.evaluation: checkpoints_iterator

    [estimator_spec.core._tensorflow.private.summary_ops]
    contrib.summary contrib.summary.summary:
      SummaryWriter all_summary_ops=all_v2_summary_ops always_record_summaries audio
      create_summary_file_writer eval_dir flush generic graph histogram image import_event
      initialize never_record_summaries record_summaries_every_n_global_steps scalar
      should_record_summaries summary_writer_initializer_op

    [estimator_spec.legacy.summaries]
    contrib.summary contrib.summary.summary: create_file_writer

    [tensorflow.data.experimental]
    contrib.data:
      AUTOTUNE Counter CsvDataset Optional RandomDataset Reducer SqlDataset TFRecordWriter
      bucket_by_sequence_length choose_from_datasets copy_to_device dense_to_sparse_batch
      enumerate_dataset get_next_as_optional get_single_element group_by_reducer group_by_window
      ignore_errors make_batched_features_dataset make_csv_dataset make_saveable_from_iterator
      map_and_batch parallel_interleave parse_example_dataset prefetch_to_device rejection_resample
      sample_from_datasets scan shuffle_and_repeat unbatch unique

    [tensorflow.signal]
    contrib.signal:
      frame hamming_window hann_window inverse_stft inverse_stft_window_fn
      linear_to_mel_weight_matrix mfccs_from_log_mel_spectrograms overlap_and_add stft

    [tensorflow.compat.v1.data]
    contrib.data: Dataset FixedLengthRecordDataset Iterator TFRecordDataset TextLineDataset

    [tensorflow]
    contrib.eager contrib.eager.python.tfe:
      GradientTape TensorSpec Variable custom_gradient defun=function executing_eagerly function
      in_eager_mode=executing_eagerly py_func=py_function
    [tensorflow.config]
    contrib.eager contrib.eager.python.tfe:
      connect_to_remote_host=experimental_connect_to_host list_devices=list_logical_devices
    [tensorflow.compat.v1]
    contrib.eager contrib.eager.python.tfe: enable_eager_execution make_template
    [tensorflow.train]
    contrib.eager contrib.eager.python.tfe: Checkpoint
    [estimator_spec.core._tensorflow.private.backprop]
    contrib.eager contrib.eager.python.tfe:
      gradients_function implicit_gradients=implicit_grad
      implicit_value_and_gradients=implicit_val_and_grad
      value_and_gradients_function=val_and_grad_function
    [estimator_spec.core._tensorflow.private.eager_context]
    contrib.eager contrib.eager.python.tfe:
      ASYNC DEVICE_PLACEMENT_EXPLICIT DEVICE_PLACEMENT_SILENT DEVICE_PLACEMENT_WARN SYNC
      async_clear_error async_wait execution_mode num_gpus set_execution_mode
    [estimator_spec.core._tensorflow.private.autotrackable]
    contrib.eager contrib.eager.python.tfe: Checkpointable=AutoTrackable
    [estimator_spec.core._tensorflow.private.variable_scope]
    contrib.eager contrib.eager.python.tfe: EagerVariableStore
    [estimator_spec.legacy.contrib.eager]
    contrib.eager contrib.eager.python.tfe: Iterator Saver get_optimizer_variables run
    contrib.eager.metrics contrib.eager.python.metrics contrib.eager.python.tfe.metrics:
      Accuracy BinaryAccuracy CategoricalAccuracy Mean SparseAccuracy

    [tensorflow.compat.v1.profiler]
    contrib.tfprof.model_analyzer: Profiler
    [estimator_spec.legacy.contrib.tfprof]
    contrib.tfprof.model_analyzer:
      FLOAT_OPS_OPTIONS PRINT_ALL_TIMING_MEMORY TRAINABLE_VARS_PARAMS_STAT_OPTIONS
      print_model_analysis

    [estimator_spec.legacy.contrib.functions]
    contrib.framework: deprecated
    contrib.data: batch_and_drop_remainder padded_batch_and_drop_remainder sloppy_interleave
    contrib.lookup contrib.lookup.lookup_ops:
      index_table_from_tensor index_to_string_table_from_tensor
    layers layers_py.layers: layer_norm
    layers layers_py.initializers:
      variance_scaling_initializer xavier_initializer xavier_initializer_conv2d=xavier_initializer
    layers layers_py.regularizers: l1_regularizer l2_regularizer

    [estimator_spec.core._tensorflow.private.lookup_ops]
    contrib.lookup contrib.lookup.lookup_ops:
      FastHashSpec HashTable=StaticHashTableV1 HasherSpec IdTableWithHashBuckets
      InitializableLookupTableBase KeyValueTensorInitializer LookupInterface
      MutableDenseHashTable=DenseHashTable MutableHashTable StrongHashSpec TableInitializerBase
      TextFileIdTableInitializer TextFileIndex TextFileInitializer TextFileStringTableInitializer
      index_table_from_file index_to_string_table_from_file

    [tensorflow.compat.v1.train]
    contrib.framework:
      create_global_step get_global_step get_or_create_global_step init_from_checkpoint
      list_variables load_checkpoint load_variable

    [tensorflow]
    contrib.framework: CriticalSection TensorSpec argsort broadcast_to is_tensor nest sort
    contrib.util: constant_value=get_static_value make_ndarray make_tensor_proto

    [tensorflow.compat.v1]
    contrib.framework: py_func

    [estimator_spec.legacy.contrib.metrics]
    contrib.metrics contrib.metrics.python.ops.metric_ops:
      accuracy aggregate_metric_map aggregate_metrics streaming_accuracy streaming_auc
      streaming_false_negatives streaming_false_negatives_at_thresholds streaming_false_positives
      streaming_false_positives_at_thresholds streaming_mean_absolute_error
      streaming_mean_cosine_distance streaming_mean_iou streaming_mean_relative_error
      streaming_mean_squared_error streaming_precision streaming_precision_at_thresholds
      streaming_recall streaming_recall_at_k streaming_recall_at_thresholds
      streaming_root_mean_squared_error streaming_sensitivity_at_specificity
      streaming_sparse_average_precision_at_k streaming_sparse_precision_at_k
      streaming_sparse_recall_at_k streaming_specificity_at_sensitivity streaming_true_negatives
      streaming_true_negatives_at_thresholds streaming_true_positives
      streaming_true_positives_at_thresholds

    [tensorflow.compat.v1.metrics]
    contrib.metrics contrib.metrics.python.ops.metric_ops:
      streaming_mean=mean streaming_mean_tensor=mean_tensor
      streaming_percentage_less=percentage_below

    [tensorflow.math]
    contrib.metrics: confusion_matrix

    [tensorflow.sets]
    contrib.metrics:
      set_difference=difference set_intersection=intersection set_size=size set_union=union

    [estimator_spec.legacy.contrib.rnn]
    contrib.rnn contrib.rnn.python.ops.core_rnn_cell contrib.rnn.python.ops.rnn_cell \
      tf_py.ops.rnn_cell:
      BasicLSTMCell BasicRNNCell DeviceWrapper DropoutWrapper GRUCell LSTMCell LSTMStateTuple
      MultiRNNCell RNNCell ResidualWrapper
    contrib.rnn contrib.rnn.python.ops.rnn: stack_bidirectional_dynamic_rnn

    [estimator_spec.legacy.contrib.cells]
    contrib.rnn contrib.rnn.python.ops.lstm_ops: LSTMBlockCell
    contrib.rnn contrib.rnn.python.ops.rnn_cell: LayerNormBasicLSTMCell

    [estimator_spec.legacy.contrib.seq2seq]
    contrib.seq2seq contrib.seq2seq.python.ops.basic_decoder: BasicDecoder BasicDecoderOutput
    contrib.seq2seq contrib.seq2seq.python.ops.beam_search_decoder: tile_batch
    contrib.seq2seq contrib.seq2seq.python.ops.decoder: Decoder dynamic_decode
    contrib.seq2seq contrib.seq2seq.python.ops.helper: GreedyEmbeddingHelper Helper TrainingHelper
    contrib.seq2seq contrib.seq2seq.python.ops.loss: sequence_loss

    [estimator_spec.legacy.contrib.preprocessing]
    learn.preprocessing learn.preprocessing.text: ByteProcessor VocabularyProcessor tokenizer
    learn.preprocessing.categorical_vocabulary learn.preprocessing.text: CategoricalVocabulary

    [estimator_spec.legacy.contrib.mnist]
    examples.tutorials.mnist.input_data learn.datasets.mnist:
      DataSet dense_to_one_hot extract_images extract_labels read_data_sets

    [estimator_spec.legacy.contrib.cloud]
    contrib.cloud contrib.cloud.python.ops.gcs_config_ops:
      BlockCacheParams ConfigureGcsHook configure_colab_session configure_gcs

    [estimator_spec.legacy.contrib.fused_rnn]
    contrib.rnn contrib.rnn.python.ops.fused_rnn_cell:
      FusedRNNCell FusedRNNCellAdaptor TimeReversedFusedRNN
    contrib.rnn contrib.rnn.python.ops.lstm_ops: LSTMBlockFusedCell

    [tensorflow.compat.v1.nn]
    contrib.rnn contrib.rnn.python.ops.core_rnn:
      static_bidirectional_rnn static_rnn static_state_saving_rnn

    [estimator_spec.legacy.contrib.opt]
    contrib.opt:
      AdamWOptimizer DecoupledWeightDecayExtension LARSOptimizer LazyAdamOptimizer
      MomentumWOptimizer MovingAverageOptimizer NadamOptimizer extend_with_decoupled_weight_decay
    contrib.opt.python.training.lazy_adam_optimizer: LazyAdamOptimizer
    contrib.opt.python.training.lars_optimizer: LARSOptimizer
    contrib.opt.python.training.moving_average_optimizer: MovingAverageOptimizer
    contrib.opt.python.training.nadam_optimizer: NadamOptimizer
    contrib.opt.python.training.weight_decay_optimizers:
      AdamWOptimizer DecoupledWeightDecayExtension MomentumWOptimizer
      extend_with_decoupled_weight_decay

    [estimator_spec.legacy.contrib.crf]
    contrib.crf contrib.crf.python.ops.crf:
      crf_binary_score crf_decode crf_log_likelihood crf_log_norm crf_sequence_score crf_unary_score
      viterbi_decode

    [estimator_spec.core.driver.predictor]
    contrib.predictor contrib.predictor.predictor_factories:
      from_estimator from_saved_model
    contrib.predictor.predictor: Predictor
    contrib.predictor.saved_model_predictor: SavedModelPredictor
    contrib.predictor.core_estimator_predictor: CoreEstimatorPredictor

    [estimator_spec.canned.kmeans_model]
    contrib.factorization contrib.factorization.python.ops.clustering_ops:
      COSINE_DISTANCE KMEANS_PLUS_PLUS_INIT RANDOM_INIT SQUARED_EUCLIDEAN_DISTANCE
    [estimator_spec.legacy.contrib.factorization]
    contrib.factorization contrib.factorization.python.ops.clustering_ops: KMeans
    contrib.factorization contrib.factorization.python.ops.kmeans contrib.learn \
      learn_py.estimators learn_py.estimators.kmeans:
      KMeansClustering

    [estimator_spec.legacy.contrib.distribute]
    contrib.distribute:
      CollectiveAllReduceStrategy DistributeConfig MirroredStrategy ParameterServerStrategy

    [tensorflow.compat.v1.distribute]
    contrib.distribute:
      CrossDeviceOps HierarchicalCopyAllReduce NcclAllReduce OneDeviceStrategy ReduceOp
      ReductionToOneDevice Strategy get_loss_reduction get_replica_context get_strategy
      has_strategy in_cross_replica_context

    [tensorflow.autograph]
    contrib.autograph: set_verbosity to_code to_graph trace

    [tensorflow.feature_column]
    contrib.feature_column:
      sequence_categorical_column_with_hash_bucket sequence_categorical_column_with_identity
      sequence_categorical_column_with_vocabulary_file
      sequence_categorical_column_with_vocabulary_list sequence_numeric_column

    [tpu_columns]
    contrib.feature_column: sequence_input_layer
    """
)

# TensorFlow up to 2.20 installed TensorBoard.
SUMMARIES = parse_rows(
    """
    [estimator_spec.legacy.summaries]
    tf2.summary: scalar
    """,
    When.WITHOUT_TENSORBOARD,
)

# Names that moved between TensorFlow's own private modules. tf_slim reads them, and so do programs.
MOVED = parse_rows(
    """
    [tensorflow]
    tf_py.framework.ops: IndexedSlices Tensor register_tensor_conversion_function

    [tensorflow.compat.v1]
    tf_py.ops.array_ops: stack unstack
    tf_py.ops.control_flow_ops: Assert case cond while_loop
    tf_py.ops.variable_scope: variable=Variable
    """
)

# Modules that TensorFlow has elsewhere now, with most of their names and modules.
MODULES = parse_homes(
    """
    tensorflow.compat.v1.keras: contrib.keras contrib.keras.api.keras contrib.keras.python.keras
    """
)

# tf_slim is tf.contrib's layers, framework, metrics and losses in a package of their own. If it is
# installed, it has what isn't in the tables above.
LIBRARIES = parse_homes(
    """
    tf_slim: slim
    tf_slim.nets: slim.nets
    tf_slim.data: slim.data
    tf_slim.data.data_decoder: contrib.slim.data_decoder slim_py.data.data_decoder
    tf_slim.data.data_provider: contrib.slim.data_provider slim_py.data.data_provider
    tf_slim.data.dataset: contrib.slim.dataset slim_py.data.dataset
    tf_slim.data.dataset_data_provider:
      contrib.slim.dataset_data_provider slim_py.data.dataset_data_provider
    tf_slim.data.parallel_reader: contrib.slim.parallel_reader slim_py.data.parallel_reader
    tf_slim.data.prefetch_queue: contrib.slim.prefetch_queue slim_py.data.prefetch_queue
    tf_slim.data.tfexample_decoder: contrib.slim.tfexample_decoder slim_py.data.tfexample_decoder
    tf_slim.layers: layers contrib.layers.python.ops
    tf_slim.layers.layers: layers_py.layers
    tf_slim.layers.initializers: layers_py.initializers
    tf_slim.layers.regularizers: layers_py.regularizers
    # The package has functions and modules of one name; `from … import` gave the functions.
    tf_slim.ops.arg_scope tf_slim.ops.variables tf_slim.ops.framework_ops tf_slim.ops:
      contrib.framework contrib.framework.python.ops
    tf_slim.ops.framework_ops: contrib.framework.python.ops.ops
    tf_slim.metrics: contrib.metrics
    tf_slim.metrics.metric_ops: contrib.metrics.python.ops.metric_ops
    tf_slim.losses: contrib.losses contrib.losses.python.losses
    tf_slim.training.training tf_slim.training.evaluation: contrib.training
    tf_slim.training.training: contrib.training.python.training.training
    tf_slim.training.evaluation: contrib.training.python.training.evaluation
    tensorboard.plugins.projector: contrib.tensorboard.plugins.projector
    """
)
