# SPDX-License-Identifier: Apache-2.0
"""Records what optimizers of TensorFlow 1.15's tf.contrib.opt do, for `test_opt.py`.

python make_tf1_15_optimizers.py tf1_15_optimizers.json     # Python 3.7, tensorflow==1.15.5
"""

import json
import os
import sys

CASES = {
    "lazy_adam": lambda opt, tf: opt.LazyAdamOptimizer(0.1),
    "nadam": lambda opt, tf: opt.NadamOptimizer(0.1),
    "adam_w": lambda opt, tf: opt.AdamWOptimizer(0.01, learning_rate=0.1),
    "momentum_w": lambda opt, tf: opt.MomentumWOptimizer(0.01, 0.1, 0.9),
    "extended": lambda opt, tf: opt.extend_with_decoupled_weight_decay(tf.train.AdagradOptimizer)(
        weight_decay=0.01, learning_rate=0.1
    ),
    "lars": lambda opt, tf: opt.LARSOptimizer(10.0, eeta=0.1, skip_list=["bias"]),
    "moving_average": lambda opt, tf: opt.MovingAverageOptimizer(
        tf.train.MomentumOptimizer(0.1, 0.9), average_decay=0.5
    ),
    "moving_average_of_few_updates": lambda opt, tf: opt.MovingAverageOptimizer(
        tf.train.AdamOptimizer(0.1), num_updates=2
    ),
}


def train(make, opt, tf, use_resource):
    """Returns variables by name after each of four steps."""
    dense_only = make is CASES["lars"]
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("", use_resource=use_resource):
            start = [[0.5 - 0.1 * i, 0.2 * i] for i in range(5)]
            table = tf.get_variable("table", initializer=start)
            kernel = tf.get_variable("kernel", initializer=[[0.3], [-0.4]])
            bias = tf.get_variable("bias", initializer=[0.1])
        ids = tf.placeholder(tf.int64, [None])
        rows = tf.matmul(tf.one_hot(ids, 5), table) if dense_only else tf.gather(table, ids)
        loss = tf.reduce_mean(tf.square(tf.matmul(rows, kernel) + bias - 1.0))
        optimizer = make(opt, tf)
        pairs = optimizer.compute_gradients(loss)
        options = {"decay_var_list": [table, kernel]} if make is CASES["adam_w"] else {}
        # TensorFlow 1.15 may shrink a variable before gradients are computed with it.
        with tf.control_dependencies([gradient for gradient, _ in pairs]):
            train_op = optimizer.apply_gradients(pairs, **options)
        session.run(tf.global_variables_initializer())
        steps = []
        for batch in ([1, 3, 1], [0, 3], [1, 1, 1], [4]):
            session.run(train_op, {ids: batch})
            names = [variable.op.name for variable in tf.global_variables()]
            values = session.run(tf.global_variables())
            steps.append({name: value.tolist() for name, value in zip(names, values)})  # noqa: B905  # for Python 3.7
        return steps


def swapped_names(opt, tf, use_resource, model_dir):
    """Returns what `swapping_saver` stores by name, and variables after a restart from it."""
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("", use_resource=use_resource):
            split = tf.fixed_size_partitioner(2)
            start = tf.constant_initializer(2.0)
            table = tf.get_variable("table", [3, 1], initializer=start, partitioner=split)
            bias = tf.get_variable("bias", initializer=[0.5])
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [0, 2], "div") * bias)
        step = tf.train.get_or_create_global_step()
        optimizer = opt.MovingAverageOptimizer(tf.train.AdagradOptimizer(0.1), 0.75)
        train_op = optimizer.minimize(loss, step)
        saver = optimizer.swapping_saver()
        session.run(tf.global_variables_initializer())
        session.run([train_op])
        session.run([train_op])
        path = saver.save(session, os.path.join(model_dir, "model.ckpt"))
        session.run(tf.global_variables_initializer())
        saver.restore(session, path)
        names = [variable.op.name for variable in tf.global_variables()]
        values = [value.tolist() for value in session.run(tf.global_variables())]
        reader = tf.train.load_checkpoint(path)
        stored = {
            name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()
        }
        return {"stored": stored, "restored": dict(zip(names, values))}  # noqa: B905  # for Python 3.7


if __name__ == "__main__":
    import tempfile

    import tensorflow

    found = {
        name: [train(make, tensorflow.contrib.opt, tensorflow, kind) for kind in (False, True)]
        for name, make in CASES.items()
    }
    found["swapping_saver"] = [
        swapped_names(tensorflow.contrib.opt, tensorflow, kind, tempfile.mkdtemp())
        for kind in (False, True)
    ]
    with open(sys.argv[1], "w") as file:
        json.dump(found, file)
