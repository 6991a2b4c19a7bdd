# SPDX-License-Identifier: Apache-2.0
"""Defines the predictors of `tensorflow.contrib.predictor`: functions of arrays.

A predictor keeps its session open, so that a call costs one `session.run`; `Estimator.predict`
builds a graph and restores a checkpoint each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.driver import checkpoint_state, graph_builder, saved_models, table_restore
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.estimator_base import setup_of
from estimator_spec.core.export.export_outputs import get_export_outputs
from estimator_spec.core.user_functions.model_spec import ModeKeys

tf1 = tf.compat.v1

_DEFAULT_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
# What tf.contrib.learn put before the names of its signatures.
_CONTRIB_LEARN = "default_input_alternative:"


class Predictor:
    """A function from a dict of arrays to a dict of arrays, computed in an open session.

    Attributes:
        graph: the graph of the model.
        session: the session; `session.close()` ends it.
        feed_tensors: tensors that take the arrays of a call, by key.
        fetch_tensors: tensors that are returned, by key.
    """

    graph: tf.Graph
    session: Any
    feed_tensors: Mapping[str, Any]
    fetch_tensors: Mapping[str, Any]

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outputs of a batch.

        Args:
            input_dict: arrays by key of `feed_tensors`. A tensor with a default may be left out.

        Returns:
            Arrays by key of `fetch_tensors`.

        Raises:
            ValueError: a key isn't one of `feed_tensors`.
            tf.errors.InvalidArgumentError: a tensor without a default is missing, among others.
        """
        unexpected = sorted(set(input_dict) - set(self.feed_tensors))
        if unexpected:
            raise ValueError(
                f"Got unexpected keys in input_dict: {unexpected}\nexpected: "
                f"{sorted(self.feed_tensors)}"
            )
        given = {key: value for key, value in input_dict.items() if value is not None}
        feed = {self.feed_tensors[key]: value for key, value in given.items()}
        return self.session.run(self.fetch_tensors, feed)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} with feed tensors {self.feed_tensors} and fetch_tensors "
            f"{self.fetch_tensors}"
        )

    def _set_signature(self, signature: Any) -> None:
        """Feeds and fetches the tensors of a `SignatureDef`."""
        for name, infos in (
            ("feed_tensors", signature.inputs),
            ("fetch_tensors", signature.outputs),
        ):
            tensors = {
                key: tf1.saved_model.get_tensor_from_tensor_info(info, self.graph)
                for key, info in infos.items()
            }
            setattr(self, name, tensors)


class SavedModelPredictor(Predictor):
    """Predictor of a SavedModel, of an estimator or of anything else.

    Args:
        export_dir: the directory of the SavedModel.
        signature_def_key: name of the signature. None: 'serving_default'.
        signature_def: a `SignatureDef` instead of a name.
        input_names: names of tensors in the SavedModel's graph by the keys of a call's inputs,
            instead of a signature; together with `output_names`.
        output_names: the same for the outputs.
        tags: tags of the graph, separated by commas. None: 'serve'.
        graph: graph into which the model is loaded. None: a new one.
        config: `tf.compat.v1.ConfigProto` of the session.

    Raises:
        ValueError: more than one of name, signature and tensors' names is given, or the graph has
            no such signature.
        RuntimeError: the SavedModel has no graph with these tags.
        OSError: there is no SavedModel.
    """

    def __init__(
        self,
        export_dir: Any,
        signature_def_key: str | None = None,
        signature_def: Any = None,
        input_names: Mapping[str, str] | None = None,
        output_names: Mapping[str, str] | None = None,
        tags: str | None = None,
        graph: tf.Graph | None = None,
        config: Any = None,
    ) -> None:
        if (input_names is None) != (output_names is None):
            raise ValueError(
                "input_names and output_names must both be specified or both be unspecified."
            )
        if [signature_def_key, signature_def, input_names].count(None) < 2:
            raise ValueError(
                "You must specify at most one of signature_def_key OR signature_def OR "
                "(input_names AND output_names)."
            )
        self.graph = graph or tf.Graph()
        with self.graph.as_default():
            self.session = tf1.Session(config=config)
            wanted = [tag.strip() for tag in (tags or tf.saved_model.SERVING).split(",")]
            meta_graph = tf1.saved_model.load(self.session, wanted, export_dir)
        if input_names is None or output_names is None:
            signatures = meta_graph.signature_def
            self._set_signature(signature_def or _find_signature(signatures, signature_def_key))
        else:
            find = self.graph.get_tensor_by_name
            self.feed_tensors = {key: find(name) for key, name in input_names.items()}
            self.fetch_tensors = {key: find(name) for key, name in output_names.items()}


def _find_signature(signatures: Mapping[str, Any], key: str | None) -> Any:
    """Returns the signature of a key, or of the name that tf.contrib.learn made of the key."""
    key = key or _DEFAULT_SIGNATURE
    if key in signatures:
        return signatures[key]
    if _CONTRIB_LEARN + key in signatures:
        tf1.logging.warning(
            "Could not find signature def %r. Using %r instead", key, _CONTRIB_LEARN + key
        )
        return signatures[_CONTRIB_LEARN + key]
    raise ValueError(
        f'Got signature_def_key "{key}". Available signatures are {sorted(signatures)}: give one '
        "of these as signature_def_key."
    )


class CoreEstimatorPredictor(Predictor):
    """Predictor of an estimator's latest checkpoint.

    Args:
        estimator: an `Estimator`. Without a checkpoint its variables have initial values.
        serving_input_receiver_fn: function that returns a `ServingInputReceiver`.
        output_key: key of `EstimatorSpec.export_outputs`. None: 'serving_default'.
        graph: graph in which the model is built. None: a new one.
        config: `tf.compat.v1.ConfigProto` of the session.

    Raises:
        TypeError: `estimator` isn't an `Estimator`.
        KeyError: the model has no output of this key.
        ValueError: the output takes other inputs: those of a classifier's or a regressor's default
            signature are serialized tf.Examples.
        CheckpointError: the checkpoint is damaged.
    """

    def __init__(
        self,
        estimator: Any,
        serving_input_receiver_fn: Any,
        output_key: str | None = None,
        graph: tf.Graph | None = None,
        config: Any = None,
    ) -> None:
        if not isinstance(estimator, Estimator):
            raise TypeError(
                "Expected estimator to be of type tf.estimator.Estimator, but got type "
                f"{type(estimator).__module__}.{type(estimator).__name__}."
            )
        setup = setup_of(estimator)
        checkpoint = setup.find_checkpoint("predict", None)
        self.graph = graph or tf.Graph()
        with self.graph.as_default():
            checkpoint_state.record_for_graph(checkpoint)
            receiver, spec = saved_models.build_model(
                setup, self.graph, serving_input_receiver_fn, ModeKeys.PREDICT
            )
            graph_builder.warm_start(setup.warm_start, checkpoint)
            outputs = get_export_outputs(spec.export_outputs, spec.predictions)
            key = output_key or _DEFAULT_SIGNATURE
            if key not in outputs:
                raise KeyError(f"output_key must be one of {sorted(outputs)}; got {key}")
            tensors = receiver.receiver_tensors
            inputs = tensors if isinstance(tensors, Mapping) else {"input": tensors}
            self._set_signature(outputs[key].as_signature_def(inputs))
            creator = tf1.train.ChiefSessionCreator(
                spec.scaffold, config=config, checkpoint_filename_with_path=checkpoint
            )
            with (
                checkpoint_state.explain_damage(checkpoint),
                table_restore.relayout_in_session(self.graph, spec.scaffold, checkpoint),
            ):
                self.session = tf1.train.MonitoredSession(creator)


# The functions of `tf.contrib.predictor`.
from_saved_model = SavedModelPredictor
from_estimator = CoreEstimatorPredictor
