# SPDX-License-Identifier: Apache-2.0
"""Dense ids on the host core: zeros are padding, and don't change tables and slots.

Where there are kernels, these look up matrices of ids; TensorFlow's ops take sparse ids.
"""

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.cores import host
from estimator_spec.core.embedding import optimizers
from tpu_columns import placement

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


def trained(cases, data, slots=None, kinds=("dense", "sparse")):
    """Trains tables on dense ids, and others on the same ids without their zeros.

    Args:
        cases: optimizer and combiner of each table.
        data: dense ids.
        slots: what slot variables begin as; None: what the optimizer says.
        kinds: which of both.

    Returns:
        All variables, and the activations of each step by feature: `dense_0` and `sparse_0` are
        those of the first case.
    """
    values = np.random.RandomState(5).uniform(-1, 1, (ROWS, DIMENSION)).astype(np.float32)
    tables = {
        f"{kind}_{number}": es.TableConfig(
            ROWS,
            DIMENSION,
            initializer=lambda *args, **kwargs: tf.constant(values),
            combiner=combiner,
            optimization_parameters=parameters,
        )
        for kind in kinds
        for number, (parameters, combiner) in enumerate(cases)
    }
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={name: es.FeatureConfig(name) for name in tables},
        table_to_config_dict=tables,
    )
    with (
        tf.Graph().as_default(),
        placement.running(placement.Mode.TRAIN, placement.Hardware.CPU),
    ):
        step = tf1.train.get_or_create_global_step()
        given = tf1.placeholder(tf.int64, [BATCH, data[0].shape[1]])
        core = host.HostCore(spec, training=True)
        ids = {"dense": given, "sparse": tf.sparse.from_dense(given)}
        features = {name: ids[name.split("_")[0]] for name in tables}
        activations = core.receive(core.look_up(features, step))
        loss = tf.add_n([tf.reduce_sum(tf.square(activations[name] - 1.0)) for name in tables])
        tf1.gradients(loss, tf1.trainable_variables())
        core.attach()
        update = core.update()
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
            if slots is not None:
                for variable in tf1.global_variables():
                    if "/" in variable.op.name:
                        variable.load(np.full((ROWS, DIMENSION), slots, np.float32), session)
            seen = [session.run([activations, update], {given: batch})[0] for batch in data]
            return session.run({v.op.name: v for v in tf1.global_variables()}), seen


@pytest.mark.parametrize("width", [1, 3])
def test_padding_leaves_no_trace(width, subtests):
    """Dense ids train as sparse ids without the zeros do, also if all ids are zeros."""
    cases = [(parameters, combiner) for parameters in OPTIMIZERS for combiner in ("mean", "sum")]
    variables, seen = trained(cases, batches_of(width))
    for number, (parameters, combiner) in enumerate(cases):
        with subtests.test(f"{parameters} {combiner}"):
            dense, sparse = f"dense_{number}", f"sparse_{number}"
            for found in seen:
                np.testing.assert_allclose(found[dense], found[sparse], rtol=1e-5, atol=1e-6)
            wanted = {k: v for k, v in variables.items() if k.split("/")[0] == sparse}
            assert len(wanted) == 1 + len(optimizers.slot_names(parameters, "table"))
            for name, value in wanted.items():
                own = variables[name.replace(sparse, dense)]
                np.testing.assert_allclose(own, value, rtol=1e-5, atol=1e-6, err_msg=name)
                assert np.isfinite(value).all()


@pytest.mark.parametrize("parameters", OPTIMIZERS[:4:3], ids=lambda p: type(p).__name__)
def test_negative_ids_are_no_padding(parameters):
    """A negative id is an error, also if all others are zeros."""
    with pytest.raises(tf.errors.InvalidArgumentError):
        batch = np.array([[0, 0], [0, -1], [0, 0], [0, 0]])
        trained([(parameters, "sum")], [batch], kinds=["dense"])


def test_padding_is_harmless_to_a_row_without_history():
    """Padding doesn't change row 0, even if a checkpoint's accumulators are zero."""
    data = [np.zeros((BATCH, 3), int)] * 2
    variables, _ = trained([(es.AdagradParameters(0.1), "sum")], data, slots=0)
    assert np.isfinite(variables["dense_0"]).all()
    assert not variables["dense_0/Adagrad"].any()
