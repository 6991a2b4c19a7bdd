# SPDX-License-Identifier: Apache-2.0
"""Defines advice on removed names that are not restored; their errors contain it."""

from __future__ import annotations

import functools

from estimator_spec.legacy.guide_pages import find_page
from estimator_spec.legacy.module_spellings import prefixes, spellings
from estimator_spec.legacy.name_rows import parse_table

_TF_SLIM = "Install tf_slim (pip install 'tpu-columns[contrib]'); tensorflow.contrib"

# The headings are the advice. `*` is every other name of a module.
UNSUPPORTED = parse_table(
    f"""
    [TensorFlow lost boosted trees with 2.9, and has no kernels of their ops. Train them by a \
     library of trees: ydf, xgboost or lightgbm. BoostedTreesClassifier and BoostedTreesRegressor \
     evaluate, predict with and export old checkpoints.]
    estimator estimator_py.estimator_lib estimator_py.canned.boosted_trees contrib.estimator:
      boosted_trees_classifier_train_in_memory boosted_trees_regressor_train_in_memory
    estimator_py.canned.boosted_trees contrib.boosted_trees contrib.tensor_forest: *

    [TensorFlow had it in tf.compat.v1.estimator.experimental only, under the name KMeans.]
    estimator estimator_v2.experimental estimator_py.estimator_lib: KMeans KMeansClustering

    [Use scikit-learn: sklearn.mixture.GaussianMixture, sklearn.decomposition.]
    contrib.factorization: *

    [Build the network in a model_fn: sequence_input_layer or tf.keras.layers, and a head of \
     estimator_spec.heads.]
    estimator estimator.experimental estimator_py.estimator_lib contrib.estimator \
      estimator_py.canned.rnn:
      RNNClassifier RNNEstimator
    estimator_py.canned.rnn: *

    [Use LinearClassifier or LinearRegressor with optimizer='Ftrl', the default.]
    estimator.experimental estimator_py.canned.linear: LinearSDCA
    contrib.linear_optimizer: *

    [Use tensorflow_probability's tfp.sts, or statsmodels.]
    estimator_py.canned.timeseries contrib.timeseries: *

    [estimator_spec.canned has the estimators themselves, not these parts. For a variant of one, \
     write a model_fn of dnn_logit_fn_builder, linear_logit_fn_builder and a head.]
    estimator_py.canned: *

    [It isn't part of estimator_spec. Write the layers in a model_fn for \
     estimator_spec.Estimator, whose loss can be that of a head (estimator_spec.heads), or build \
     the model in Keras.]
    estimator_py.head contrib.estimator: *

    [It is a private part of how TensorFlow's Estimator ran a tf.distribute.Strategy. Give the \
     strategy to RunConfig(train_distribute=...).]
    estimator_py.estimator:
      _combine_distributed_scaffold _get_loss_reduce_op_for_reporting _get_replica_device_setter
      create_per_replica_ready_for_local_init_op
    estimator_py.util: DistributedIteratorInitializerHook
    estimator_py.early_stopping: _MultiWorkerEarlyStoppingHook

    [Use the pairs of EstimatorSpec.eval_metric_ops; Estimator.evaluate adds the loss.]
    estimator_py.estimator: _extract_metric_update_ops _verify_and_create_loss_metric

    [train_and_evaluate has no such object. Pass a CheckpointSaverListener or a hook by \
     TrainSpec.]
    estimator_py.training: _NewCheckpointListenerForEvaluate _StopAtSecsHook

    [Estimator.export_saved_model does it. Return a ServingInputReceiver, which checks its \
     tensors.]
    estimator_py.export.export estimator_py.export.export_lib:
      export_outputs_for_mode wrap_and_check_input_tensors

    [Use Estimator.export_saved_model, and tf.saved_model.load for its functions.]
    estimator_py.export.function: *

    [It renamed slot variables of the first generation's canned estimators for the second's. \
     Warm-start from the old checkpoint, or use `python -m estimator_spec checkpoint convert`.]
    estimator_py.tools.checkpoint_converter: *

    [It is a part of TensorFlow's model_to_estimator. Call estimator_spec.model_to_estimator; the \
     weights of examples are the feature `sample_weights`.]
    estimator_py.keras_lib: FormattedKeyError standardize_sample_weights

    [It was the decorator by which TensorFlow published its Estimator's names. Leave it out.]
    estimator_py.estimator_export: T

    [It counted uses of the Estimator inside of Google. Leave it out.]
    estimator_py.tools.analytics: track_numerical_issues track_usage

    [It is a helper of TensorFlow's own tests. Read event files with \
     tf.compat.v1.train.summary_iterator.]
    estimator_py.hooks.fake_summary_writer: *

    [It is a private part of the old TPUEstimator's loop, and nothing here corresponds to it. Put \
     the change into the model_fn, the input_fn or a SessionRunHook.]
    estimator_tpu_py.tpu_estimator:
      CatchInvalidHostcallFunctions ExamplesPerSecondHook InstallSignalHandlerHook PeriodicLogger
      TPUInfeedOutfeedSessionHook TPUInfeedOutfeedSessionHookForPrediction TensorPacker
      _CapturedObject _CapturingContext _InputPipeline _Inputs _InputsWithStoppingSignals
      _ModelFnWrapper _OpQueueContext _OutfeedHostCall _OutfeedHostCallHook _PaddingSignals
      _SetEvalIterationsHook _StopSignals _StoppingPredictHook _TPUContext
      _TPUEstimatorReplicaContext _TPUStopAtStepHook call_computation
      generate_broadcast_enqueue_ops_fn generate_per_core_enqueue_ops_fn_for_host
      generate_per_host_enqueue_ops_fn_for_host generate_per_host_v2_enqueue_ops_fn_for_host
      inference_on_tpu model_fn_inference_on_tpu
    estimator_tpu_py.tpu_context:
      _InternalTPUContext _OneCoreTPUContext _TPUEstimatorReplicaContext _get_tpu_context
    estimator_tpu_py.util: IterationsPerLoopCounter
    estimator_tpu_py.error_handling estimator_tpu_py.iteration_count_estimator: *

    [Use EmbeddingConfigSpec and estimator_spec.tables_and_features.]
    estimator_tpu_py._tpu_estimator_embedding:
      EmbeddingConfig get_configs_from_feature_columns get_full_variable_names
      get_tpu_embedding_columns split_inputs

    [Use tf.tpu.experimental.embedding.TPUEmbedding, the API that came after it.]
    tpu_py.tpu_embedding:
      EnqueueData RaggedEnqueueData TPUEmbedding TPUEmbeddingConfiguration VariablesAndOps

    [It drives a TPU system, which estimator_spec leaves to TensorFlow. Leave it out.]
    contrib.tpu: InfeedQueue infeed_dequeue infeed_enqueue outfeed_enqueue

    [Leave the hook out: checkpoints are saved by RunConfig(save_checkpoints_steps=...).]
    contrib.tpu: AsyncCheckpointSaverHook TPUInMemoryEvalHook

    [Use tf.distribute.TPUStrategy, under which Keras models train.]
    contrib.tpu: TPUDistributionStrategy keras_to_tpu_model

    [Use TPUEstimator.export_saved_model.]
    contrib.tpu estimator_tpu_py.tpu_estimator: export_estimator_savedmodel

    [It went with the Estimator of TensorFlow 2.15. Leave it out.]
    tpu_py: async_checkpoint session_support tpu_embedding_gradient

    [It was a network of a tutorial in TensorFlow's repository. Copy mnist.py from TensorFlow \
     1.15's sources; input_data is restored.]
    tf.examples.tutorials.mnist: mnist

    [It was a part of TensorFlow's repository. Copy it from TensorFlow 1.15's sources.]
    tf: examples

    [It was a part of TensorFlow 0.x's repository. Copy it from there.]
    tf: models

    [TensorFlow 1.0 renamed it: use tf.matmul, whose adjoint_a and adjoint_b are adj_x and adj_y.]
    tf: batch_matmul

    [TensorFlow 1.0 removed it: use tf.linalg.eigh, tf.linalg.eigvalsh or tf.linalg.svd.]
    tf: batch_self_adjoint_eig batch_self_adjoint_eigvals batch_svd

    [TensorFlow 1.0 moved it to tf.contrib.legacy_seq2seq, which isn't restored. Copy it from \
     TensorFlow 1.15's sources.]
    tf.nn: seq2seq

    [It ran the Estimator of TensorFlow 2.15 under a strategy. Give the strategy to \
     RunConfig(train_distribute=...).]
    tf_py.distribute.estimator_training: *

    [Use tf.profiler.experimental, whose Profile, start and stop do the same.]
    tf_py.eager.profiler: *

    [{_TF_SLIM}.slim leads to it then.]
    contrib.slim: *

    [{_TF_SLIM}.layers leads to it then. tf.compat.v1.layers has the common ones.]
    contrib.layers: *

    [{_TF_SLIM}.framework leads to it then.]
    contrib.framework: *

    [{_TF_SLIM}.losses leads to it then.]
    contrib.losses: *

    [{_TF_SLIM}.training leads to it then. See also tf.compat.v1.train.]
    contrib.training: *

    [Look for it in tf.data and tf.data.experimental.]
    contrib.data: *

    [Look for it in tf.keras.]
    contrib.keras: *

    [Look for it in tf.lookup and tf.lookup.experimental.]
    contrib.lookup: *

    [{_TF_SLIM}.metrics leads to it then. See also tf.compat.v1.metrics.]
    contrib.metrics: *

    [Look for it in tf.compat.v1.nn.rnn_cell and tf.keras.layers.]
    contrib.rnn: *

    [Look for it in tf.distribute.]
    contrib.distribute: *

    [Install tensorflow_probability.]
    contrib.distributions: *

    [Look for it in tf.image and tf.raw_ops.]
    contrib.image: *

    [It is read from columns now: tf.feature_column.categorical_column_with_vocabulary_list, or \
     tf.keras.layers.StringLookup.]
    learn.preprocessing: *

    [Load the data by tf.keras.datasets or sklearn.datasets.]
    learn.datasets contrib.learn: load_dataset
    learn.datasets: *

    [Export by an export strategy of Experiment, or after fit by Estimator.export_savedmodel.]
    learn.monitors: ExportMonitor

    [Build the model in a model_fn of tf.contrib.learn.Estimator or estimator_spec.Estimator.]
    learn learn_py.estimators: DynamicRnnEstimator LogisticRegressor StateSavingRnnEstimator SVM

    [Use multi_class_head or regression_head of tf.contrib.learn, or build the loss in a model_fn.]
    learn learn_py.estimators.head:
      binary_svm_head loss_only_head multi_head multi_label_head poisson_regression_head

    [Few programs use this part of tf.contrib.learn. Its Estimator, canned models, Experiment, \
     learn_runner and export strategies are restored; the rest of a program can use \
     estimator_spec.Estimator.]
    contrib.learn: *

    [Use an optimizer of tf.compat.v1.train, or copy it from TensorFlow 1.15's sources.]
    contrib.opt: *

    [Copy the function from TensorFlow 1.15's sources; the others of contrib.crf are restored.]
    contrib.crf: *

    [Compute the attention in a cell of your own, by tf.keras.layers.Attention (Luong's) or \
     AdditiveAttention (Bahdanau's), and give that cell to BasicDecoder, which is restored.]
    contrib.seq2seq contrib.seq2seq.python.ops.attention_wrapper:
      AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention \
      BahdanauMonotonicAttention LuongAttention LuongMonotonicAttention hardmax

    [Decode greedily by GreedyEmbeddingHelper and BasicDecoder, which are restored, or search in a \
     tf.while_loop of your own with tf.math.top_k.]
    contrib.seq2seq contrib.seq2seq.python.ops.beam_search_decoder:
      BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState \
      FinalBeamSearchDecoderOutput gather_tree gather_tree_from_array

    [Subclass Helper of tf.contrib.seq2seq, which is restored with TrainingHelper and \
     GreedyEmbeddingHelper: initialize, sample and next_inputs are all that a decoder calls.]
    contrib.seq2seq: *

    [Write the decoder as a loop over tf.compat.v1.nn.rnn_cell cells, or by BasicDecoder and \
     dynamic_decode of tf.contrib.seq2seq, which are restored.]
    contrib.legacy_seq2seq: *

    [Use the package tensorflow_model_optimization (with Keras).]
    contrib.quantize: *

    [Use tf.signal, whose names are those of TensorFlow 1.15's.]
    contrib.signal: *

    [Use model.save(path, save_format='tf') of Keras 2.]
    contrib.saved_model contrib.saved_model.python.saved_model.keras_saved_model: save_keras_model

    [Use tf.keras.models.load_model of Keras 2 for what model.save wrote. For a directory that \
     save_keras_model wrote: tf.keras.models.model_from_json of its assets/saved_model.json, then \
     load_weights of its variables/variables.]
    contrib.saved_model contrib.saved_model.python.saved_model.keras_saved_model: load_keras_model

    [It saved and loaded Keras models: use model.save(path, save_format='tf') and \
     tf.keras.models.load_model of Keras 2.]
    contrib.saved_model: *

    [Use tf.saved_model.load, and the signatures of what it returns.]
    contrib.session_bundle: *

    [Use tf.compat.v1.profiler, or tf.profiler.experimental.]
    contrib.tfprof contrib.stat_summarizer contrib.memory_stats: *

    [Subclass tf.keras.Model, or use tf.keras.Sequential; Network was the trial version of both.]
    contrib.eager contrib.eager.python.tfe contrib.eager.python.network: Network Sequential

    [Use save_weights and load_weights of tf.keras.Model, which took the place of Network.]
    contrib.eager contrib.eager.python.tfe contrib.eager.python.network:
      restore_network_checkpoint save_network_checkpoint

    [Create the variables first, then restore them: by Saver of tf.contrib.eager, which is put \
     back, or by tf.train.Checkpoint.restore, which also waits for variables to be created.]
    contrib.eager contrib.eager.python.tfe contrib.eager.python.saver: restore_variables_on_create

    [Use tf.debugging.enable_check_numerics to stop at inf and NaN, and \
     tf.debugging.experimental.enable_dump_debug_info to look at each op.]
    contrib.eager contrib.eager.python.tfe:
      ExecutionCallback add_execution_callback clear_execution_callbacks errstate inf_callback
      inf_nan_callback nan_callback seterr

    [Use tf.config.experimental_connect_to_cluster.]
    contrib.eager contrib.eager.python.tfe: enable_remote_eager_execution set_server_def

    [Subclass tf.keras.metrics.Metric; Mean and the accuracies are put back.]
    contrib.eager.metrics contrib.eager.python.metrics: *

    [Use eager execution's own names: tf.GradientTape, tf.function, tf.Variable, tf.data.Dataset, \
     tf.train.Checkpoint, tf.keras.Model.]
    contrib.eager: *

    [Set credentials in the environment: GOOGLE_APPLICATION_CREDENTIALS.]
    contrib.cloud: *

    [Use tensorflow_io, which has readers of it.]
    contrib.bigtable contrib.ffmpeg contrib.hadoop contrib.ignite contrib.kafka contrib.kinesis \
      contrib.libsvm:
      *

    [Use tf.keras.layers.LSTM or GRU: they run cuDNN's kernels where they can.]
    contrib.cudnn_rnn: *

    [Use tf.random.stateless_uniform and its kin.]
    contrib.stateless: *

    [Use tf.mixed_precision or tf.keras.mixed_precision.]
    contrib.mixed_precision: *

    [Use tf.distribute.cluster_resolver.]
    contrib.cluster_resolver: *

    [Use tensorflow.python.compiler.tensorrt, or NVIDIA's own converters.]
    contrib.tensorrt: *

    [Jit-compile by tf.function(jit_compile=True).]
    contrib.compiler: *

    [Use tf.compat.v1.train.Optimizer and its subclasses, or tf.keras.optimizers.]
    contrib.optimizer_v2: *

    [Use tensorflow_model_optimization for pruning (with Keras).]
    contrib.model_pruning: *

    [Use scipy.integrate, or tensorflow_probability's tfp.math.ode.]
    contrib.integrate: *

    [Use tensorflow_probability's tfp.mcmc.]
    contrib.bayesflow: *

    [Use scikit-learn's approximations of kernels: sklearn.kernel_approximation.]
    contrib.kernel_methods: *

    [Use tf.linalg, or scipy.sparse.linalg.]
    contrib.solvers: *

    [Use the package tfco, tensorflow_constrained_optimization.]
    contrib.constrained_optimization: *

    [Use xarray, or tensors without labels.]
    contrib.labeled_tensor: *

    [Use tf.text, or an n-gram model of your own: contrib.text had the skip-gram ops only.]
    contrib.text: *

    [Use tf.function's tracing to build changed graphs; no library edits graphs any more.]
    contrib.copy_graph contrib.graph_editor contrib.meta_graph_transform: *

    [Use tf.io.decode_proto and tf.io.encode_proto.]
    contrib.proto: *

    [Use tf.nn and tf.compat.v1.nn.]
    contrib.nn contrib.fused_conv contrib.grid_rnn contrib.recurrent: *

    [Use tf.compat.v1.summary, or tf.summary in eager programs.]
    contrib.summary: *

    [Use tf.train.Checkpoint.]
    contrib.checkpoint: *

    [Use tf.nondifferentiable_batch_function, or batch in what serves the model.]
    contrib.batching: *

    [Nothing today has its place: leave it out if nothing uses it, or copy it from TensorFlow \
     1.15's sources.]
    contrib: *
    """
)


@functools.cache
def _table() -> dict[str, str]:
    """Returns advice by full name, `module.*` for the rest of a module; the first entry wins."""
    found: dict[str, str] = {}
    for text, places, name in UNSUPPORTED:
        for place in places:
            for module in spellings(place):
                found.setdefault(f"{module}.{name}", text)
    return found


def is_listed(module: str, name: str) -> bool:
    """Returns whether there is advice on exactly this name."""
    return f"{module}.{name}" in _table()


def advice(module: str, name: str) -> str:
    """Returns advice on a removed name that isn't restored.

    >>> advice('tensorflow.contrib', 'distributions')
    'Install tensorflow_probability.'

    Args:
        module: the module's full name, in any spelling.
        name: the name in it.

    Returns:
        A sentence or two, for an error message.
    """
    table = _table()
    for prefix in prefixes(f"{module}.{name}"):
        for entry in (prefix, f"{prefix}.*"):
            if entry in table:
                return table[entry]
    return f"{find_page('docs/legacy_names.md')} lists the names that are put back."
