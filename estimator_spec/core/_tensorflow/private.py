# SPDX-License-Identifier: Apache-2.0
"""Names from TensorFlow's private modules, and private attributes of its objects.

Each comes with the reason why no public one serves. `tests/test_architecture.py` lists them all.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

# isort: off
# The dense columns that a spec accepts beside TPU columns, and the base class of columns that only
# linear models take; the base class of columns of TF1's protocol, of which other libraries have
# subclasses. Only the functions that make them are public. `import tensorflow` loads both modules.
from tensorflow.python.feature_column.feature_column import (
    _FeatureColumn as FeatureColumnV1,
    _SharedEmbeddingColumn as SharedEmbeddingColumnV1,
)
from tensorflow.python.feature_column.feature_column_v2 import (
    CategoricalColumn as CategoricalColumn,
    EmbeddingColumn as EmbeddingColumn,
    NumericColumn as NumericColumn,
    SharedEmbeddingColumn as SharedEmbeddingColumn,
)

# The readable copy of the global step, which MonitoredSession's hooks create. Legacy Estimators
# create it before the model; default op seeds, the number of ops in the graph, depend on that.
# Under a strategy of several processes that copy would have the initial value's collective.
from tensorflow.python.training.training_util import (
    GLOBAL_STEP_READ_KEY as GLOBAL_STEP_READ_KEY,
    _get_or_create_global_step_read as get_or_create_global_step_read,
)

# isort: on

# Names that aren't imported as themselves.
__all__ = ["FeatureColumnV1", "SharedEmbeddingColumnV1", "get_or_create_global_step_read"]

# Not documented, but exported on purpose, for Keras outside of TensorFlow.
DenseColumn = tf.__internal__.feature_column.DenseColumn

DENSE_COLUMNS = (NumericColumn, EmbeddingColumn, SharedEmbeddingColumn, SharedEmbeddingColumnV1)

# Modules imported at the first use of their name here: only TPU programs, conversions and old
# names need them.
_MODULES = {
    # The objects of tensorflow.contrib.eager that track variables have no public names.
    "autotrackable": "tensorflow.python.trackable.autotrackable",
    # Functions of tensorflow.contrib.eager that return gradients.
    "backprop": "tensorflow.python.eager.backprop",
    # Modes of execution of tensorflow.contrib.eager.
    "eager_context": "tensorflow.python.eager.context",
    # The variable store of tensorflow.contrib.eager.
    "variable_scope": "tensorflow.python.ops.variable_scope",
    # Messages that configure an embedding core: no public module has them.
    "optimization_parameters_pb2": "tensorflow.core.protobuf.tpu.optimization_parameters_pb2",
    "tpu_embedding_configuration_pb2": (
        "tensorflow.core.protobuf.tpu.tpu_embedding_configuration_pb2"
    ),
    # Messages of a checkpoint's index file: no public module has them.
    "tensor_bundle_pb2": "tensorflow.core.protobuf.tensor_bundle_pb2",
    # The id tables of tensorflow.contrib.lookup have no public names.
    "lookup_ops": "tensorflow.python.ops.lookup_ops",
    # Signatures and directories of exports: the Estimator's export modules had them.
    "model_utils": "tensorflow.python.saved_model.model_utils",
    # Which ops there are: tf.raw_ops lacks those without a function.
    "op_def_registry": "tensorflow.python.framework.op_def_registry",
    # The message in the file of a SavedModel: no public module has it.
    "saved_model_pb2": "tensorflow.core.protobuf.saved_model_pb2",
    # Graphs of a SavedModel with other inputs: the public loader replaces none.
    "saved_model_loader": "tensorflow.python.saved_model.loader_impl",
    # The signatures of tensorflow.contrib.summary (`family`, the step of the graph) are not public.
    "summary_ops": "tensorflow.python.ops.summary_ops_v2",
    # How many replicas a computation is built for: tensorflow.contrib.tpu had it, no public name.
    "tpu_function": "tensorflow.python.tpu.tpu_function",
    # The loops of tensorflow.contrib.tpu have no public names.
    "training_loop": "tensorflow.python.tpu.training_loop",
    # Functional loops. `tf.while_loop` makes them by a switch of the process, for all its threads.
    "while_v2": "tensorflow.python.ops.while_v2",
}


def __getattr__(name: str) -> Any:
    """Imports a module of `_MODULES` when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = importlib.import_module(_MODULES[name])
    return module


def keras_is_loaded() -> bool:
    """Returns whether `tf.keras` was used already; TensorFlow reads TF_USE_LEGACY_KERAS then.

    A plain attribute access would load Keras.
    """
    loader = vars(tf).get("keras")
    # From 2.16 on this is a loader until it has been used, then the module itself.
    return vars(loader).get("_tfll_initialized", True) if loader is not None else False


def restart_layer_names(package: str) -> None:
    """Restarts the numbering of Keras' layer names in the default graph.

    The public function for it does so in all graphs, of which other threads may build some.

    Args:
        package: 'tf_keras' or 'keras'; does nothing if it isn't loaded or is Keras 3.
    """
    backend = sys.modules.get(f"{package}.src.backend")
    numbers = getattr(backend, "PER_GRAPH_OBJECT_NAME_UIDS", {})
    numbers.pop(tf.compat.v1.get_default_graph(), None)


def prefer_keras_package(package: str) -> None:
    """Makes `import tensorflow.keras` find the Keras of another package.

    When TensorFlow is imported, it puts the directories of one Keras into the paths of its modules,
    by the value that TF_USE_LEGACY_KERAS has then.

    Args:
        package: 'tf_keras'.
    """
    spec = importlib.util.find_spec(package)
    home = os.path.dirname(str(spec.origin)) if spec is not None else ""
    for name in ("", "._api.v2.compat.v1", ".compat.v1", "._api.v2.compat.v2", ".compat.v2"):
        module = sys.modules.get("tensorflow" + name)
        if module is None:
            continue
        folder = os.path.join(home, "api", "_v1" if name.endswith("v1") else "_v2")
        if os.path.isdir(folder) and folder not in module.__path__:
            module.__path__ = [folder, *module.__path__]


def feature_transformation_cache(tensors: Any) -> Any:
    """Returns the object that feature columns read their features from.

    Exported by TensorFlow for the Keras outside of it; columns take features in no other form.

    Args:
        tensors: by feature key.
    """
    return tf.__internal__.feature_column.FeatureTransformationCache(tensors)


def wrapped_lookup_table(table: Any) -> Any:
    """Returns the table with a vocabulary file behind a table that adds hash buckets, or `table`.

    A SavedModel copies the vocabulary file of the inner table only, and the outer table, which has
    no public access to it, doesn't track it.
    """
    return getattr(table, "_table", None) or table


def keras_learning_rate(optimizer: Any) -> Any:
    """Returns the learning rate of a Keras optimizer in this step, as a tensor.

    tf_keras' public property holds the last step's rate if the rate is a schedule.

    Args:
        optimizer: of tf_keras (either of its classes) or Keras 3.
    """
    rate = getattr(optimizer, "_learning_rate", None)
    if hasattr(rate, "get_config") and callable(rate):
        return rate(optimizer.iterations)
    if hasattr(optimizer, "_decayed_lr"):
        return optimizer._decayed_lr(tf.float32)
    return tf.convert_to_tensor(optimizer.learning_rate)


def tf1_optimizer_arguments(optimizer: Any) -> dict[str, Any]:
    """Returns the arguments of a `tf.compat.v1.train.Optimizer` by name; they have no getters.

    Args:
        optimizer: any optimizer of TensorFlow 1.
    """
    values = {name.lstrip("_"): value for name, value in vars(optimizer).items()}
    return {**values, "learning_rate": values.get("learning_rate", values.get("lr"))}


def eager_mode() -> contextlib.AbstractContextManager[None]:
    """Returns a context in which ops run eagerly in a process that has switched that off."""
    # tf.compat.v1.enable_eager_execution serves only before the first graph.
    from tensorflow.python.eager import context

    mode: contextlib.AbstractContextManager[None] = context.eager_mode()
    return mode


# How many threads build models with each strategy: a program may share one.
_average_losses: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


@contextlib.contextmanager
def average_losses(strategy: Any) -> Iterator[None]:
    """Makes TF1's optimizers divide the loss by the number of replicas, in the block.

    Legacy Estimators ran models of a `tf.distribute.Strategy` so. The switch is the strategy's, and
    has no public name; it stays on while any thread is in such a block.
    """

    def add(number: int) -> None:
        with _LOCK:
            _average_losses[strategy] = _average_losses.get(strategy, 0) + number
            strategy._scale_loss_for_estimator = _average_losses[strategy] > 0

    add(1)
    try:
        yield
    finally:
        add(-1)


@contextlib.contextmanager
def strategy_in_outer_graph() -> Iterator[None]:
    """Makes the current replica's strategy that of the graph around a loop, too.

    `tf.init_scope` leaves the loop's graph, and with it the strategy: its variable creators and the
    replica context belong to a graph. Variables of `tf.compat.v1.train.ExponentialMovingAverage`,
    which creates them within an init_scope, would not be mirrored.
    """
    inner = tf.compat.v1.get_default_graph()
    with tf.init_scope():
        outer = tf.compat.v1.get_default_graph()
    if outer is inner:
        yield
        return
    # Both stacks are the current thread's.
    before = outer._variable_creator_stack, outer._distribution_strategy_stack
    outer._variable_creator_stack = inner._variable_creator_stack
    outer._distribution_strategy_stack = inner._distribution_strategy_stack
    try:
        yield
    finally:
        outer._variable_creator_stack, outer._distribution_strategy_stack = before


def saver_listeners(hook: Any) -> list[Any]:
    """Returns the list of a `CheckpointSaverHook`'s listeners.

    Its constructor takes them, but the hook may be the user's.
    """
    return hook._listeners  # type: ignore[no-any-return]


def saver_of_objects(checkpoint: Any, **options: Any) -> Any:
    """Returns a `tf.compat.v1.train.Saver` of the variables of a `tf.train.Checkpoint`.

    `Scaffold.finalize` makes the same one, but adds ops to the graph that an export doesn't need.

    Args:
        checkpoint: a `tf.train.Checkpoint`, or another object that tracks variables, such as a
            Keras model. The saver's checkpoints have its object graph.
        **options: further arguments of the saver.
    """
    # Public names save objects in a format of their own, not by a Saver of a graph.
    from tensorflow.python.checkpoint import graph_view

    objects = graph_view.ObjectGraphView(checkpoint).frozen_saveable_objects()
    return tf.compat.v1.train.Saver(var_list=objects, sharded=True, **options)


def variables_by_saved_name(variables: Any) -> dict[str, Any]:
    """Returns variables by the names under which a `tf.compat.v1.train.Saver` stores them.

    Args:
        variables: a list of them; the parts of a partitioned one become a list.
    """
    # `Saver` groups parts by itself, but only a dictionary can change names.
    from tensorflow.python.training.saving import saveable_object_util

    return saveable_object_util.op_list_to_dict(variables)


def sparse_core_layout_stacker(**arguments: Any) -> Any:
    """Returns TensorFlow's `SparseCoreLayoutStacker`, which computes layouts of stacked tables.

    TensorFlow has it from 2.17 on. `TPUEmbeddingV2` calls it with the samples of its first
    feature only, so conversions call it themselves; `TableConfig(layout=…)` takes its layouts.

    Args:
        **arguments: of its constructor.
    """
    # A C++ class; no public name leads to it, and TensorFlow 2.15 hasn't got it.
    from tensorflow.python.tpu import _pywrap_sparse_core_layout

    return _pywrap_sparse_core_layout.SparseCoreLayoutStacker(**arguments)


def add_table(stacker: Any, *, num_features: int, **arguments: Any) -> None:
    """Adds a table to a `SparseCoreLayoutStacker`.

    Args:
        stacker: the stacker.
        num_features: how many features look it up; those of TensorFlow 2.17 and 2.18 don't take it.
        **arguments: the others of `AddTable`.
    """
    if "num_features" in stacker.AddTable.__doc__:
        arguments["num_features"] = num_features
    stacker.AddTable(**arguments)


def is_saving_model() -> bool:
    """Returns whether functions are traced for a SavedModel, as TensorFlow's own objects ask."""
    # No public name tells; a SavedModel can't have the queues of a training step.
    from tensorflow.python.saved_model import save_context

    return bool(save_context.in_save_context())


def saveable_tensors(owner: Any, tensors: Mapping[str, Any], restore: Callable[..., Any]) -> Any:
    """Returns an object for the collection SAVEABLE_OBJECTS: tensors that savers save by name.

    Args:
        owner: the resource of a variable that has the tensors' values.
        tensors: what is saved, by name in the checkpoint.
        restore: function of the restored tensors, in the same order, that returns the op that
            assigns them.
    """
    # Savers take variables and these objects; only their functions for iterators are public.
    from tensorflow.python.training.saving import saveable_object

    class Tensors(saveable_object.SaveableObject):  # type: ignore[misc]  # TensorFlow has no types
        def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
            return restore(restored_tensors)

    specs = [saveable_object.SaveSpec(tensor, "", name) for name, tensor in tensors.items()]
    # The name of an op: it stands for the object in exported meta graphs.
    return Tensors(owner, specs, owner.op.name)
