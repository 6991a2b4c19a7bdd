# SPDX-License-Identifier: Apache-2.0
"""EstimatorSpec and TPUEstimatorSpec: required arguments, checks, metrics, named tuples."""

from __future__ import annotations

import re
from concurrent import futures

import pytest
import tensorflow as tf

from estimator_spec import EstimatorSpec, ModeKeys, TPUEstimatorSpec
from estimator_spec.core.export.export_outputs import PredictOutput

tf1 = tf.compat.v1
DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
TRAIN, EVAL, PREDICT = ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT

both = pytest.mark.parametrize("make", [EstimatorSpec, TPUEstimatorSpec])


@pytest.fixture(autouse=True)
def graph():
    """Default graph of each test."""
    with tf.Graph().as_default() as graph:
        yield graph


def foreign(make):
    """Returns the result of `make` in another graph."""
    with tf.Graph().as_default():
        return make()


def loss():
    """A scalar."""
    return tf.constant(1.0, name="loss")


def hook():
    """A session hook."""
    return tf1.train.SessionRunHook()


def of_eval(**arguments):
    """Returns the arguments of a spec of an evaluation."""
    return {"mode": EVAL, "loss": loss(), **arguments}


def of_predict(predictions, **arguments):
    """Returns the arguments of a spec of a prediction."""
    return {"mode": PREDICT, "predictions": predictions, **arguments}


# The arguments, made in the test's graph, and what is said.
BAD_OF_BOTH = [
    (lambda: {"mode": TRAIN, "loss": loss()}, ValueError, "Missing train_op."),
    (lambda: {"mode": TRAIN, "train_op": tf.no_op()}, ValueError, "Missing loss."),
    (lambda: {"mode": EVAL}, ValueError, "Missing loss."),
    (lambda: {"mode": PREDICT}, ValueError, "Missing predictions."),
    (
        lambda: {"mode": TRAIN, "loss": loss(), "train_op": "step"},
        TypeError,
        "train_op must be Operation or Tensor, given: step",
    ),
    (
        lambda: {"mode": TRAIN, "loss": loss(), "train_op": foreign(tf.no_op)},
        ValueError,
        'train_op with "NoOp" must be from the default graph',
    ),
    (lambda: {"mode": EVAL, "loss": 1.0}, TypeError, "loss must be Tensor, given: 1.0"),
    (lambda: {"mode": EVAL, "loss": tf.constant([1.0, 2.0])}, ValueError, "Loss must be scalar"),
    (
        lambda: {"mode": EVAL, "loss": foreign(loss)},
        ValueError,
        'loss with "loss:0" must be from the default graph',
    ),
    (lambda: of_predict({"p": 1.0}), TypeError, r"predictions\[p\] must be Tensor, given: 1.0"),
    (lambda: of_predict([loss()]), TypeError, "predictions must be Tensor, given"),
    (
        lambda: of_predict({"p": foreign(loss)}),
        ValueError,
        'prediction values with "p: loss:0" must be from the default graph',
    ),
    (
        lambda: of_predict(foreign(loss)),
        ValueError,
        'prediction values with "loss:0" must be from the default graph',
    ),
    (lambda: of_predict(loss(), export_outputs=[1]), TypeError, "`export_outputs` must be dict"),
    *[
        (
            lambda name=name: {"mode": EVAL, "loss": loss(), name: [lambda: None]},
            TypeError,
            "All hooks must be SessionRunHook instances, given",
        )
        for name in ("training_hooks", "evaluation_hooks", "prediction_hooks")
    ],
]

BAD_ESTIMATOR_SPECS = [
    (
        lambda: of_eval(training_chief_hooks=[1]),
        TypeError,
        "All hooks must be SessionRunHook instances, given: 1",
    ),
    (lambda: of_eval(scaffold=1), TypeError, "scaffold must be tf.train.Scaffold. Given: 1"),
    (lambda: of_eval(eval_metric_ops=[1]), TypeError, "eval_metric_ops must be a dict, given"),
    (
        lambda: of_eval(eval_metric_ops={"m": loss()}),
        TypeError,
        r"Values of eval_metric_ops must be \(metric_value, update_op\) tuples, given.* key: m",
    ),
    (
        lambda: of_eval(eval_metric_ops={"m": (loss(),)}),
        TypeError,
        r"Values of eval_metric_ops must be \(metric_value, update_op\) tuples, given",
    ),
    (
        lambda: of_eval(eval_metric_ops={"m": (foreign(loss), tf.no_op())}),
        ValueError,
        'eval_metric_ops with "m: loss:0" must be from the default graph',
    ),
    (
        lambda: of_eval(eval_metric_ops={"m": tf.keras.metrics.Mean(name="mine")}),
        ValueError,
        r'Please call update_state\(...\) on the "mine" metric',
    ),
]

BAD_TPU_SPECS = [
    ({"eval_metrics": "x"}, ValueError, "eval_metrics should be tuple or list"),
    ({"eval_metrics": (len,)}, ValueError, "eval_metrics should have two elements."),
    ({"eval_metrics": (1, [])}, TypeError, r"eval_metrics\[0\] should be callable."),
    ({"eval_metrics": (len, 1)}, ValueError, r"eval_metrics\[1\] should be tuple or list, or dict"),
    (
        {"eval_metrics": (lambda a, b: {}, [1])},
        RuntimeError,
        "In TPUEstimatorSpec.eval_metrics, length of tensors 1 does not match method args of the "
        "function, which takes 2.",
    ),
    ({"host_call": "x"}, ValueError, "host_call should be tuple or list"),
    ({"host_call": (len,)}, ValueError, "host_call should have two elements."),
    ({"host_call": (1, [])}, TypeError, r"host_call\[0\] should be callable."),
    ({"host_call": (len, 1)}, ValueError, r"host_call\[1\] should be tuple or list, or dict"),
    (
        {"host_call": (lambda a: [], [1, 2])},
        RuntimeError,
        "In TPUEstimatorSpec.host_call, length of tensors 2 does not match method args of the "
        "function, which takes 1.",
    ),
]


class TestBoth:
    def test_mode_keys(self):
        """The values are the strings of tf.estimator."""
        assert (TRAIN, EVAL, PREDICT) == ("train", "eval", "infer")

    @both
    @pytest.mark.parametrize("arguments, error, message", BAD_OF_BOTH)
    def test_bad_values(self, make, arguments, error, message):
        """Both specs refuse invalid values with the argument's message."""
        with pytest.raises(error, match=message):
            make(**arguments())

    @both
    def test_what_a_mode_needs(self, make):
        """Each mode accepts just the arguments that it needs."""
        assert make(TRAIN, loss=loss(), train_op=tf.no_op()).predictions == {}
        assert make(EVAL, loss=loss()).train_op is None
        assert make(PREDICT, predictions={"p": loss()}).loss is None

    @both
    def test_what_a_mode_does_not_need(self, make):
        """Every mode accepts all arguments."""
        for mode in (TRAIN, EVAL, PREDICT):
            made = make(mode, {"p": loss()}, loss(), tf.no_op())
            assert made.mode == mode
            assert made.train_op.type == "NoOp"

    @both
    def test_a_loss_of_one_element_becomes_a_scalar(self, make):
        """A loss of shape [1] or of unknown shape is reshaped to a scalar."""
        scalar = loss()
        assert make(EVAL, loss=scalar).loss is scalar
        assert make(EVAL, loss=tf.constant([1.0])).loss.shape == []
        unknown = tf1.placeholder(tf.float32)
        assert make(EVAL, loss=unknown).loss is unknown
        assert make(EVAL, loss=tf1.placeholder(tf.float32, [None])).loss.shape == []

    @both
    def test_a_variable_as_train_op(self, make):
        """A variable, which an assignment returns, becomes its op."""
        variable = tf1.get_variable("v", [], use_resource=True)
        made = make(TRAIN, loss=loss(), train_op=variable)
        assert made.train_op is variable.op

    @both
    def test_hooks_become_tuples(self, make):
        """Any iterable of hooks becomes a tuple; None becomes an empty one."""
        one = hook()
        made = make(EVAL, loss=loss(), evaluation_hooks=iter([one]), training_hooks=None)
        assert made.evaluation_hooks == (one,)
        assert made.training_hooks == made.prediction_hooks == ()

    @both
    def test_outputs_are_completed_for_prediction_only(self, make):
        """In prediction mode the predictions become the default output."""
        made = make(PREDICT, predictions={"p": loss()})
        assert list(made.export_outputs[DEFAULT].outputs) == ["p"]
        named = {"mine": PredictOutput(loss())}
        assert set(make(PREDICT, loss(), export_outputs=named).export_outputs) == {"mine", DEFAULT}
        assert make(EVAL, loss=loss()).export_outputs is None
        assert make(EVAL, loss=loss(), export_outputs=named).export_outputs is named

    @both
    def test_a_default_among_several_outputs(self, make):
        """Several outputs without a default one are refused."""
        outputs = {"a": PredictOutput(loss()), "b": PredictOutput(loss())}
        with pytest.raises(ValueError, match="none of them are specified as the default"):
            make(PREDICT, predictions=loss(), export_outputs=outputs)

    @both
    def test_the_user_s_dictionaries_are_left_alone(self, make):
        """Changing the user's predictions later doesn't change the spec."""
        predictions = {"p": loss()}
        made = make(PREDICT, predictions=predictions)
        predictions.clear()
        assert list(made.predictions) == ["p"]

    def test_outside_of_a_graph(self):
        """Eager tensors are accepted, because there is no graph to check."""

        def eagerly():
            eager = tf.constant(1.0)
            return EstimatorSpec(EVAL, {"p": eager}, eager).loss is eager

        with futures.ThreadPoolExecutor(1) as threads:
            assert threads.submit(eagerly).result()


class TestEstimatorSpec:
    @pytest.mark.parametrize("arguments, error, message", BAD_ESTIMATOR_SPECS)
    def test_bad_values(self, arguments, error, message):
        """Invalid values are refused with the argument's message."""
        with pytest.raises(error, match=message):
            EstimatorSpec(**arguments())

    def test_fields(self):
        """Eleven fields, in TensorFlow's order."""
        assert " ".join(EstimatorSpec._fields) == (
            "mode predictions loss train_op eval_metric_ops export_outputs "
            "training_chief_hooks training_hooks scaffold evaluation_hooks "
            "prediction_hooks"
        )

    def test_defaults(self):
        """Defaults: a new scaffold, no metrics."""
        made = EstimatorSpec(EVAL, loss=loss())
        assert isinstance(made.scaffold, tf1.train.Scaffold)
        assert made.eval_metric_ops == {}
        own = tf1.train.Scaffold()
        assert EstimatorSpec(EVAL, loss=loss(), scaffold=own).scaffold is own

    def test_replace(self):
        """`_replace` has the checks of the constructor and can't change the mode."""
        made = EstimatorSpec(EVAL, loss=loss())
        other = tf.constant([2.0])
        assert made._replace(loss=other, mode=EVAL).loss.shape == []
        assert made._replace(evaluation_hooks=[hook()])[9] != ()
        with pytest.raises(ValueError, match="mode of EstimatorSpec cannot be changed"):
            made._replace(mode=TRAIN)
        with pytest.raises(TypeError, match="loss must be Tensor"):
            made._replace(loss=1.0)
        with pytest.raises(TypeError, match="nonsense"):
            made._replace(nonsense=1)

    def test_metric_functions(self):
        """Pairs of value and update op are kept."""
        pair = tf1.metrics.mean(loss())
        variable = tf1.get_variable("v", [])
        metrics = {"mean": pair, "v": (variable, tf.no_op())}
        made = EstimatorSpec(EVAL, loss=loss(), eval_metric_ops=metrics)
        assert made.eval_metric_ops["mean"] == pair
        assert made.eval_metric_ops["v"][0] is variable

    def test_a_metric_of_numbers(self):
        """A number in a metric is a TypeError that names the metric."""
        with pytest.raises(TypeError, match=r"must hold Tensors and Operations, given: 0.5 "):
            EstimatorSpec(EVAL, loss=loss(), eval_metric_ops={"m": (0.5, tf.no_op())})

    def test_keras_metrics(self):
        """Keras 2 metrics become pairs, and their variables local variables."""
        metric = tf.keras.metrics.Mean()
        metric.update_state([1.0, 2.0, 6.0])
        given = {"mean": metric}
        made = EstimatorSpec(EVAL, loss=loss(), eval_metric_ops=given)
        assert given["mean"] is metric
        value, update = made.eval_metric_ops["mean"]
        for _ in range(2):  # a second spec must not add the variables again
            EstimatorSpec(EVAL, loss=loss(), eval_metric_ops=given)
        for collection in (tf1.GraphKeys.LOCAL_VARIABLES, tf1.GraphKeys.METRIC_VARIABLES):
            held = [id(variable) for variable in tf1.get_collection(collection)]
            assert sorted(held) == sorted(id(variable) for variable in metric.variables)
        with tf1.Session() as session:
            session.run(tf1.local_variables_initializer())
            session.run(update)
            assert session.run(value) == 3.0

    def test_a_keras_3_metric(self):
        """The error of a Keras 3 metric names alternatives."""

        class Metric:
            variables = ()

            def update_state(self, values):
                """Has the signature of Keras 3."""

            def result(self):
                """Has the signature of Keras 3."""

        with pytest.raises(TypeError, match="TF_USE_LEGACY_KERAS=1"):
            EstimatorSpec(EVAL, loss=loss(), eval_metric_ops={"m": Metric()})


class TestTPUEstimatorSpec:
    @pytest.mark.parametrize("values, error, message", BAD_TPU_SPECS)
    def test_bad_host_functions(self, values, error, message):
        """Invalid `eval_metrics` and `host_call` are refused with messages."""
        with pytest.raises(error, match=message):
            TPUEstimatorSpec(EVAL, loss=loss(), **values)

    def test_a_scaffold_fn_is_a_function(self):
        """A scaffold_fn that isn't callable is refused."""
        with pytest.raises(TypeError, match="scaffold_fn should be callable"):
            TPUEstimatorSpec(EVAL, loss=loss(), scaffold_fn=tf1.train.Scaffold())

    def test_fields(self):
        """Eleven fields, in TensorFlow's order."""
        assert " ".join(TPUEstimatorSpec._fields) == (
            "mode predictions loss train_op eval_metrics export_outputs scaffold_fn "
            "host_call training_hooks evaluation_hooks prediction_hooks"
        )

    def test_as_estimator_spec(self):
        """`as_estimator_spec` keeps all fields and calls scaffold_fn."""
        made = []

        def scaffold_fn():
            made.append(tf1.train.Scaffold())
            return made[-1]

        hooks = [hook() for _ in range(3)]
        spec = TPUEstimatorSpec(
            TRAIN,
            {"p": loss()},
            loss(),
            tf.no_op(),
            export_outputs={DEFAULT: PredictOutput(loss())},
            scaffold_fn=scaffold_fn,
            training_hooks=hooks[:1],
            evaluation_hooks=hooks[1:2],
            prediction_hooks=hooks[2:],
        )
        assert not made
        plain = spec.as_estimator_spec()
        assert isinstance(plain, EstimatorSpec)
        for name in ("mode", "predictions", "loss", "train_op", "export_outputs"):
            assert getattr(plain, name) == getattr(spec, name), name
        assert plain.scaffold is made[0]
        assert plain.training_hooks == (hooks[0],)
        assert plain.evaluation_hooks == (hooks[1],)
        assert plain.prediction_hooks == (hooks[2],)
        assert plain.eval_metric_ops == {}

    def test_a_scaffold_fn_may_make_none(self):
        """A function that returns None leaves the default scaffold."""
        spec = TPUEstimatorSpec(EVAL, loss=loss(), scaffold_fn=lambda: None)
        assert isinstance(spec.as_estimator_spec().scaffold, tf1.train.Scaffold)

    @pytest.mark.parametrize("by_name", [True, False])
    def test_metrics(self, by_name):
        """`metric_fn` gets tensors of a dictionary by name, of a list by position."""
        x, y = tf.constant(1.0), tf.constant(2.0)

        def metric_fn(x, y):
            return {"x": tf1.metrics.mean(x), "difference": tf1.metrics.mean(y - x)}

        tensors = {"y": y, "x": x} if by_name else [x, y]
        spec = TPUEstimatorSpec(EVAL, loss=loss(), eval_metrics=(metric_fn, tensors))
        metrics = spec.as_estimator_spec().eval_metric_ops
        assert list(metrics) == ["x", "difference"]
        with tf1.Session() as session:
            session.run(tf1.local_variables_initializer())
            assert session.run([metrics["x"][1], metrics["difference"][1]]) == [1.0, 1.0]

    def test_metrics_of_any_number_of_tensors(self):
        """A function of `*tensors` takes any number."""

        def metric_fn(*values):
            return {"n": tf1.metrics.mean(values)}

        spec = TPUEstimatorSpec(EVAL, loss=loss(), eval_metrics=(metric_fn, [1, 2]))
        assert list(spec.as_estimator_spec().eval_metric_ops) == ["n"]

    def test_names_that_do_not_fit(self):
        """The error of unknown names shows the names and the function's arguments."""
        spec = TPUEstimatorSpec(
            EVAL, loss=loss(), eval_metrics=(lambda labels: {}, {"label": loss()})
        )
        with pytest.raises(TypeError, match=r"eval_metrics\[0\] cannot be .*'label'.*'labels'"):
            spec.as_estimator_spec()

    def test_a_type_error_inside_is_not_hidden(self):
        """A TypeError of the function itself is raised unchanged."""

        def metric_fn(x):
            raise TypeError("inside")

        spec = TPUEstimatorSpec(EVAL, loss=loss(), eval_metrics=(metric_fn, {"x": loss()}))
        with pytest.raises(TypeError, match="^inside$"):
            spec.as_estimator_spec()

    def test_two_specs_keep_their_own_functions(self):
        """A later spec doesn't change the functions of an earlier one."""
        first = TPUEstimatorSpec(
            EVAL, loss=loss(), eval_metrics=(lambda x: {"first": tf1.metrics.mean(x)}, [loss()])
        )
        TPUEstimatorSpec(
            EVAL, loss=loss(), eval_metrics=(lambda x: {"second": tf1.metrics.mean(x)}, [loss()])
        )
        assert list(first.as_estimator_spec().eval_metric_ops) == ["first"]
        assert first._replace(eval_metrics=None).as_estimator_spec().eval_metric_ops == {}


@pytest.mark.reference
class TestAgainstTheOldClasses:
    def test_signatures(self, old_estimator, compare):
        """Fields, and names, order and defaults of all arguments equal TensorFlow 2.15's."""
        for ours, theirs in (
            (EstimatorSpec, old_estimator.EstimatorSpec),
            (TPUEstimatorSpec, old_estimator.tpu.TPUEstimatorSpec),
        ):
            assert compare.parameters(ours) == compare.parameters(theirs)
            assert ours._fields == theirs._fields
        for name in ("TRAIN", "EVAL", "PREDICT"):
            assert getattr(ModeKeys, name) == getattr(old_estimator.ModeKeys, name)

    @pytest.mark.parametrize("arguments, error, message", BAD_OF_BOTH + BAD_ESTIMATOR_SPECS)
    def test_bad_estimator_specs(self, old_estimator, compare, arguments, error, message):
        """TensorFlow 2.15 refuses the same specs with the same words."""
        del error
        compare.refuse_alike(EstimatorSpec, old_estimator.EstimatorSpec, message, **arguments())

    @pytest.mark.parametrize("arguments, error, message", BAD_OF_BOTH)
    def test_bad_tpu_specs(self, old_estimator, compare, arguments, error, message):
        """TensorFlow 2.15 refuses the same TPU specs with the same words."""
        del error
        theirs = old_estimator.tpu.TPUEstimatorSpec
        compare.refuse_alike(TPUEstimatorSpec, theirs, message, **arguments())

    @pytest.mark.parametrize("values, error, message", BAD_TPU_SPECS)
    def test_bad_host_functions(self, old_estimator, compare, values, error, message):
        """TensorFlow 2.15 refuses the same host functions with the same words."""
        del error
        message = message if "\\" in message else re.escape(message)
        theirs = old_estimator.tpu.TPUEstimatorSpec
        compare.refuse_alike(TPUEstimatorSpec, theirs, message, mode=EVAL, loss=loss(), **values)
