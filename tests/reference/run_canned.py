# SPDX-License-Identifier: Apache-2.0
"""Runs canned models on one side in one process; 2_dnn_binary is of the second generation.

    SIDE=reference python run_canned.py OUT 1_dnn_binary 2_dnn_binary
    SIDE=ours python run_canned.py OUT 1_dnn_binary 2_dnn_binary --donor OTHER_OUT
    SIDE=reference python run_canned.py OUT 2_dnn_binary --donor OTHER_OUT --continue-only

Trains each model to step 50, from its initial values or from the donor's checkpoint of step 0, and
leaves in OUT/<model>.npz: names of trainable variables, losses, metrics, predictions, tags of
summaries, the variables with which a new model begins and of the last checkpoint, and what the
exported model serves for tf.Examples. `--continue-only` starts at the donor's checkpoint of step
24, and leaves losses and variables in OUT/<model>-continued.npz.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil

import numpy as np
import tensorflow as tf
from programs import canned_models

tf1 = tf.compat.v1

# A multiple of the batches in an epoch: an input begins anew where a run continues.
STEPS, HALF = 50, 24


class TrainableNames(tf1.train.SessionRunHook):
    """Records the names of the trainable variables in the graph."""

    names: tuple[str, ...] = ()

    def begin(self):
        """Records the names."""
        self.names = sorted(variable.op.name for variable in tf1.trainable_variables())


def variables(checkpoint):
    """Returns a checkpoint's variables by name."""
    reader = tf1.train.NewCheckpointReader(checkpoint)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def adopt(donor_dir, model_dir, step):
    """Copies a checkpoint of the donor into a new model_dir."""
    os.makedirs(model_dir)
    name = f"model.ckpt-{step}"
    for path in glob.glob(os.path.join(donor_dir, name + ".*")):
        shutil.copy(path, model_dir)
    tf1.train.update_checkpoint_state(model_dir, os.path.join(model_dir, name))


def summaries(directory):
    """Returns the summaries of a directory: {step: value} by tag."""
    found = {}
    for path in glob.glob(os.path.join(directory, "events.*")):
        for event in tf1.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return {tag: values for tag, values in found.items() if not tag.startswith("global_step")}


def served(saved_model):
    """Returns outputs and description of every signature for serialized examples."""
    record = {}
    with tf1.Session(graph=tf.Graph()) as session:
        meta_graph = tf1.saved_model.load(session, ["serve"], saved_model)
        for key, signature in meta_graph.signature_def.items():
            (fed,) = signature.inputs.values()
            fetch = {name: output.name for name, output in signature.outputs.items()}
            values = session.run(fetch, {fed.name: canned_models.serialized()})
            record.update({f"{key}/{name}": value for name, value in values.items()})
            record[f"{key}/method"] = np.array(signature.method_name)
            record[f"{key}/inputs"] = np.array(sorted(signature.inputs))
    return record


def stacked(predictions):
    """Converts an iterator of dictionaries to a dictionary of arrays."""
    predictions = list(predictions)
    return {key: np.stack([p[key] for p in predictions]) for key in predictions[0]}


def run(model, model_dir, donor, train_only):
    """Returns the record of one model."""
    generation, name = int(model[0]), model[2:]
    train = canned_models.input_fn(name, 1, training=True)
    groups = {}
    if donor and not train_only:
        fresh = canned_models.make_estimator(name, generation, model_dir + "_fresh", HALF)
        fresh.train(train, steps=1)
        groups["initial"] = variables(os.path.join(fresh.model_dir, "model.ckpt-0"))
    if donor:
        adopt(os.path.join(donor, model), model_dir, HALF if train_only else 0)
    estimator = canned_models.make_estimator(name, generation, model_dir, HALF)
    hook = TrainableNames()
    estimator.train(train, hooks=[hook], max_steps=STEPS)
    written = summaries(model_dir)
    losses = [loss for _, loss in sorted(written["loss"].items())]
    record = {"losses": np.array(losses), "names": np.array(hook.names)}
    if not train_only:
        test = canned_models.input_fn(name, 2, training=False)
        if not donor:
            groups["initial"] = variables(os.path.join(model_dir, "model.ckpt-0"))
        groups["metrics"] = estimator.evaluate(test)
        groups["predictions"] = stacked(estimator.predict(test))
        receiver = canned_models.parsing_receiver(canned_models.feature_spec(name))
        path = estimator.export_saved_model(os.path.join(model_dir, "export"), receiver)
        groups["served"] = served(tf.compat.as_str_any(path))
        record["tags"] = np.array(sorted(written))
        record["tags of evaluation"] = np.array(sorted(summaries(os.path.join(model_dir, "eval"))))
    groups["variables"] = variables(estimator.latest_checkpoint())
    for group, values in groups.items():
        for key, value in values.items():
            array = np.asarray(value)
            record[f"{group}:{key}"] = array.astype("S") if array.dtype == object else array
    return record


def main():
    """Parses arguments, runs the models, and saves their records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--donor")
    parser.add_argument("--continue-only", action="store_true")
    arguments = parser.parse_args()
    tf1.logging.set_verbosity(tf1.logging.ERROR)
    for model in arguments.models:
        ending = "-continued" if arguments.continue_only else ""
        model_dir = os.path.join(arguments.out, model + ending)
        record = run(model, model_dir, arguments.donor, arguments.continue_only)
        np.savez(model_dir + ".npz", **record)


if __name__ == "__main__":
    main()
