# SPDX-License-Identifier: Apache-2.0
"""Export outputs: arguments and signatures."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_spec.core.export.export_outputs import (
    ClassificationOutput,
    EvalOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
    TrainOutput,
    get_export_outputs,
)

tf1 = tf.compat.v1
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


@pytest.fixture(autouse=True)
def graph():
    """Default graph of each test."""
    with tf.Graph().as_default() as graph:
        yield graph


def examples():
    """Input of Classify and Regress requests."""
    return {"examples": tf1.placeholder(tf.string, [None], name="examples")}


def scores():
    """A float tensor."""
    return tf.constant([[0.25, 0.75]], name="scores")


def labels():
    """A string tensor."""
    return tf.constant([["no", "yes"]], name="labels")


def shown(signature):
    """Returns method and tensor names of a signature."""
    return (
        signature.method_name,
        {key: info.name for key, info in signature.inputs.items()},
        {key: info.name for key, info in signature.outputs.items()},
    )


# A constructor as a function of the module that has the classes, and what is said.
BAD_OUTPUTS = [
    (lambda m: m.ClassificationOutput(), "Cannot create a ClassificationOutput with empty argum"),
    (lambda m: m.ClassificationOutput(scores="0.5"), "scores must be a float32 Tensor; got 0.5"),
    (lambda m: m.ClassificationOutput(scores=labels()), "scores must be a float32 Tensor; got"),
    (lambda m: m.ClassificationOutput(classes=scores()), "classes must be a string Tensor; got"),
    (lambda m: m.ClassificationOutput(scores(), ["no"]), "classes must be a string Tensor; got"),
    (lambda m: m.RegressionOutput(labels()), "Regression output value must be a float32 Tensor"),
    (lambda m: m.RegressionOutput(0.5), "Regression output value must be a float32 Tensor; got"),
    (lambda m: m.PredictOutput({1: scores()}), "Prediction output key must be a string; got 1"),
    (lambda m: m.PredictOutput({"a": 0.5}), "Prediction output value must be a Tensor; got 0.5"),
    (lambda m: m.PredictOutput([0.5]), "Prediction output value must be a Tensor; got"),
    (lambda m: m.EvalOutput(loss=0.5), "loss output value must be a Tensor; got 0.5"),
    (lambda m: m.EvalOutput(loss={1: scores()}), "loss output key must be a string; got 1"),
    (lambda m: m.EvalOutput(predictions={1: scores()}), "predictions output key must be a string"),
    (
        lambda m: m.EvalOutput(metrics={"m": (0.5, tf.no_op())}),
        "metrics/m output value must be a Tensor; got 0.5",
    ),
    (
        lambda m: m.EvalOutput(metrics={"m": (scores(), 0.5)}),
        "metrics/m update_op must be a Tensor or Operation; got 0.5",
    ),
    (
        lambda m: m.ClassificationOutput(scores()).as_signature_def({"x": scores()}),
        "Classification signatures can only accept a single tensor input of type tf.string",
    ),
    (
        lambda m: m.ClassificationOutput(scores()).as_signature_def({"x": labels(), "y": labels()}),
        "Classification signatures can only accept a single tensor input of type tf.string",
    ),
    (
        lambda m: m.RegressionOutput(scores()).as_signature_def({"x": scores()}),
        "Regression signatures can only accept a single tensor input of type tf.string",
    ),
    (
        lambda m: m.EvalOutput(loss=scores()).as_signature_def({}),
        "`inputs` cannot be None or empty",
    ),
]

# An output as a function of the module that has the classes, and what is fed.
GOOD_OUTPUTS = [
    (lambda m: m.ClassificationOutput(scores=scores()), examples),
    (lambda m: m.ClassificationOutput(classes=labels()), examples),
    (lambda m: m.ClassificationOutput(scores(), labels()), examples),
    (lambda m: m.RegressionOutput(scores()), examples),
    (lambda m: m.PredictOutput(scores()), examples),
    (lambda m: m.PredictOutput({"a": scores(), ("head", "b"): labels()}), lambda: {"x": scores()}),
    (
        lambda m: m.EvalOutput(
            loss=tf.constant(1.0),
            predictions={"p": scores(), "predictions/q": scores()},
            metrics={"mean": tf1.metrics.mean(scores()), ("h", "n"): (scores(), tf.no_op())},
        ),
        examples,
    ),
    (lambda m: m.TrainOutput(loss={"loss": tf.constant(1.0), "extra": scores()}), examples),
]


class TestSignatures:
    def test_classification(self):
        """Classification signatures have the names that servers expect."""
        signature = ClassificationOutput(scores(), labels()).as_signature_def(examples())
        assert shown(signature) == (
            "tensorflow/serving/classify",
            {"inputs": "examples:0"},
            {"scores": "scores:0", "classes": "labels:0"},
        )

    def test_regression(self):
        """Regression signatures have the names that servers expect."""
        signature = RegressionOutput(scores()).as_signature_def(examples())
        assert shown(signature) == (
            "tensorflow/serving/regress",
            {"inputs": "examples:0"},
            {"outputs": "scores:0"},
        )

    def test_prediction(self):
        """A single tensor is named `output`; parts of a tuple key are joined by `/`."""
        signature = PredictOutput({"a": scores(), ("head", "b"): labels()})
        assert shown(signature.as_signature_def(examples())) == (
            "tensorflow/serving/predict",
            {"examples": "examples:0"},
            {"a": "scores:0", "head/b": "labels:0"},
        )
        assert list(PredictOutput(scores()).outputs) == ["output"]

    def test_evaluation(self):
        """Loss, predictions and metrics get their prefixes; an op is wrapped in a tensor."""
        update = tf.no_op(name="update")
        output = EvalOutput(
            loss=tf.constant(1.0, name="the_loss"),
            predictions={"p": scores()},
            metrics={"m": (tf.constant(2.0, name="value"), update)},
        )
        method, inputs, outputs = shown(output.as_signature_def(examples()))
        assert (method, inputs) == ("tensorflow/supervised/eval", {"examples": "examples:0"})
        assert outputs == {
            "loss": "the_loss:0",
            "predictions/p": "scores:0",
            "metrics/m/value": "value:0",
            "metrics/m/update_op": "metric_op_wrapper:0",
        }
        wrapper = output.metrics["metrics/m/update_op"]
        assert wrapper.op.control_inputs == [update]

    def test_what_is_missing_is_none(self):
        """Missing parts are None and left out of the signature."""
        output = TrainOutput(loss=tf.constant(1.0))
        assert output.predictions is output.metrics is None
        signature = output.as_signature_def(examples())
        assert signature.method_name == "tensorflow/supervised/training"
        assert list(signature.outputs) == ["loss"]

    def test_a_lone_metric(self):
        """A single metric is named `metrics`."""
        output = EvalOutput(metrics=tf1.metrics.mean(scores()))
        assert sorted(output.metrics) == ["metrics/update_op", "metrics/value"]

    def test_a_keras_metric(self):
        """A Keras 2 metric that was updated once gives its value and update op."""
        metric = tf.keras.metrics.Mean(name="mean")
        with pytest.raises(ValueError, match='"mean" must have been updated once'):
            EvalOutput(metrics={"mean": metric})
        metric.update_state(scores())
        output = EvalOutput(metrics={"mean": metric})
        assert output.metrics["metrics/mean/update_op"] is metric.updates[0] or (
            metric.updates[0] in output.metrics["metrics/mean/update_op"].op.control_inputs
        )

    @pytest.mark.parametrize("make, message", BAD_OUTPUTS)
    def test_bad_values(self, make, message):
        """Invalid values are refused with the argument's message."""
        import estimator_spec.core.export.export_outputs as ours

        with pytest.raises(ValueError, match=message):
            make(ours)

    def test_the_base_is_no_output(self):
        """ExportOutput can't be instantiated."""
        with pytest.raises(TypeError):
            ExportOutput()


class TestDefaults:
    def test_predictions_are_the_default(self):
        """Without outputs the predictions get the default name."""
        outputs = get_export_outputs(None, {"p": scores()})
        assert list(outputs) == [DEFAULT]
        assert isinstance(outputs[DEFAULT], PredictOutput)
        assert list(outputs[DEFAULT].outputs) == ["p"]

    def test_a_lone_output_is_the_default_too(self):
        """A single output also gets the default name; the caller's dictionary isn't changed."""
        given = {"mine": PredictOutput(scores())}
        outputs = get_export_outputs(given, None)
        assert outputs == {"mine": given["mine"], DEFAULT: given["mine"]}
        assert list(given) == ["mine"]

    def test_a_default_among_several(self):
        """Several outputs with a default one aren't changed."""
        given = {"a": PredictOutput(scores()), DEFAULT: RegressionOutput(scores())}
        assert get_export_outputs(given, None) == given
        assert get_export_outputs({DEFAULT: given["a"]}, None) == {DEFAULT: given["a"]}

    def test_several_without_a_default(self):
        """Several outputs without a default one are refused."""
        given = {"a": PredictOutput(scores()), "b": PredictOutput(scores())}
        with pytest.raises(ValueError, match="none of them are specified as the default.*'a'"):
            get_export_outputs(given, None)

    @pytest.mark.parametrize(
        "given, message",
        [
            ("x", "`export_outputs` must be dict, received: x"),
            ([1], "`export_outputs` must be dict"),
            ({"x": 1}, "Values in `export_outputs` must be ExportOutput objects"),
        ],
    )
    def test_other_things(self, given, message):
        """Only a dictionary of outputs is accepted."""
        with pytest.raises(TypeError, match=message):
            get_export_outputs(given, None)


@pytest.fixture
def old_module():
    """TensorFlow's private module with these classes."""
    return pytest.importorskip("tensorflow.python.saved_model.model_utils.export_output")


@pytest.mark.reference
class TestAgainstTheOldClasses:
    @pytest.mark.parametrize("make, receivers", GOOD_OUTPUTS)
    def test_signatures(self, old_module, make, receivers):
        """Signatures equal TensorFlow's byte for byte."""
        import estimator_spec.core.export.export_outputs as ours

        made = []
        for module in (ours, old_module):
            with tf.Graph().as_default():
                output = make(module)
                made.append(output.as_signature_def(receivers()))
        assert made[0] == made[1]

    @pytest.mark.parametrize("make, message", BAD_OUTPUTS)
    def test_refusals(self, old_module, compare, make, message):
        """TensorFlow refuses the same outputs with the same words."""
        import estimator_spec.core.export.export_outputs as ours

        compare.refuse_alike(lambda: make(ours), lambda: make(old_module), message)

    @pytest.mark.parametrize(
        "name",
        ["ClassificationOutput", "EvalOutput", "PredictOutput", "RegressionOutput", "TrainOutput"],
    )
    def test_arguments(self, old_module, compare, name):
        """Names, order and defaults of all arguments equal TensorFlow's."""
        import estimator_spec.core.export.export_outputs as ours

        assert compare.parameters(getattr(ours, name)) == compare.parameters(
            getattr(old_module, name)
        )
