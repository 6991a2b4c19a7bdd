# SPDX-License-Identifier: Apache-2.0
"""Dense ids on the host core: zeros are padding, and don't change tables and slots."""

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.cores import host

tf1 = tf.compat.v1
ROWS, DIMENSION, BATCH = 7, 3, 4
OPTIMIZERS = [
    es.StochasticGradientDescentParameters(0.1),
    es.AdagradParameters(0.1),
    es.AdagradParameters(0.1, weight_decay_factor=0.1),
    es.AdamParameters(0.1),
    es.MomentumParameters(0.1, 0.8),
    es.StochasticGradientDescentParameters(0.1, clip_weight_max=0.2),
]


def batches_of(width):
    """Returns batches of random ids, one without padding, one with padding only."""
    rng = np.random.RandomState(3)
    some = [rng.randint(0, ROWS, (BATCH, width)) for _ in range(4)]
    full, empty = np.full((BATCH, width), 3), np.zeros((BATCH, width), np.int64)
    return [*some[:2], full, empty, *some[2:], empty]


def trained(parameters, data, combiner, dense, slots=None):
    """All variables after training on dense ids, or on the same without their zeros.

    Slot variables begin as the optimizer says, or as `slots`.
    """
    values = np.random.RandomState(5).uniform(-1, 1, (ROWS, DIMENSION)).astype(np.float32)
    table = es.TableConfig(
        ROWS, DIMENSION, initializer=lambda *args, **kwargs: tf.constant(values), combiner=combiner
    )
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={"ids": es.FeatureConfig("table")},
        table_to_config_dict={"table": table},
        optimization_parameters=parameters,
    )
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        given = tf1.placeholder(tf.int64, [BATCH, data[0].shape[1]])
        core = host.HostCore(spec, training=True)
        ids = given if dense else tf.sparse.from_dense(given)
        activations = core.receive(core.look_up({"ids": ids}, step))["ids"]
        loss = tf.reduce_sum(tf.square(activations - 1.0))
        tf1.gradients(loss, tf1.trainable_variables())
        core.attach()
        update = core.update()
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
            if slots is not None:
                for variable in tf1.global_variables():
                    if variable.op.name.startswith("table/"):
                        variable.load(np.full((ROWS, DIMENSION), slots, np.float32), session)
            losses = [session.run([loss, update], {given: batch})[0] for batch in data]
            return losses, {v.op.name: session.run(v) for v in tf1.global_variables()}


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("combiner", ["mean", "sum"])
@pytest.mark.parametrize("parameters", OPTIMIZERS, ids=lambda p: type(p).__name__)
def test_padding_leaves_no_trace(parameters, combiner, width):
    """Dense ids train as sparse ids without the zeros do, also if all ids are zeros."""
    data = batches_of(width)
    losses, variables = trained(parameters, data, combiner, dense=True)
    wanted_losses, wanted = trained(parameters, data, combiner, dense=False)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-5)
    assert variables.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(variables[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
        assert np.isfinite(value).all()


@pytest.mark.parametrize("parameters", OPTIMIZERS[:4:3], ids=lambda p: type(p).__name__)
def test_negative_ids_are_no_padding(parameters):
    """A negative id is an error, also if all others are zeros."""
    with pytest.raises(tf.errors.InvalidArgumentError):
        trained(parameters, [np.array([[0, 0], [0, -1], [0, 0], [0, 0]])], "sum", dense=True)


def test_padding_is_harmless_to_a_row_without_history():
    """Padding doesn't change row 0, even if a checkpoint's accumulators are zero."""
    data = [np.zeros((BATCH, 3), int)] * 2
    _, variables = trained(es.AdagradParameters(0.1), data, "sum", dense=True, slots=0)
    assert np.isfinite(variables["table"]).all()
    assert not variables["table/Adagrad"].any()
