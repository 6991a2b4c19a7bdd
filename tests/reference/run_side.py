# SPDX-License-Identifier: Apache-2.0
"""Runs programs on one side in one process, and records comparable results.

    SIDE=reference python run_side.py OUT pooled_columns sequences
    SIDE=ours python run_side.py OUT pooled_columns sequences --donor OTHER_OUT
    SIDE=reference python run_side.py OUT pooled_columns --donor OTHER_OUT --continue-only

Trains each program 200 steps; with a donor it also starts at the donor's checkpoint of step 100,
made by the other side, and trains the rest. Leaves the model in OUT/<program>/ and the record in
OUT/<program>.npz, those of the continued run in OUT/<program>-continued: losses, evaluation
metrics, predictions, the variables of the last checkpoint, and what the exported model serves.
"""

from __future__ import annotations

import argparse
import glob
import importlib
import os
import shutil

import numpy as np
import tensorflow as tf
from programs import common

tf1 = tf.compat.v1

STEPS = 200
HALF = 100


def adopt_checkpoint(donor_dir, model_dir):
    """Copies the donor's checkpoint of step 100 into a new model_dir."""
    os.makedirs(model_dir)
    name = f"model.ckpt-{HALF}"
    files = glob.glob(os.path.join(donor_dir, name + "*"))
    if not files:
        raise RuntimeError(f"No {name} in {donor_dir}.")
    for path in files:
        shutil.copy(path, model_dir)
    tf1.train.update_checkpoint_state(model_dir, os.path.join(model_dir, name))


def variables(checkpoint):
    """Returns a checkpoint's variables by name."""
    reader = tf1.train.NewCheckpointReader(checkpoint)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def stacked(predictions):
    """Converts a list of dictionaries to a dictionary of arrays."""
    predictions = list(predictions)
    return {key: np.stack([p[key] for p in predictions]) for key in predictions[0]}


def served(saved_model, request):
    """Returns outputs and description of every signature, loaded by TF1's loader."""
    record = {}
    with tf1.Session(graph=tf.Graph()) as session:
        meta_graph = tf1.saved_model.load(session, ["serve"], saved_model)
        for key, signature in meta_graph.signature_def.items():
            feed = {signature.inputs[name].name: value for name, value in request.items()}
            fetch = {name: output.name for name, output in signature.outputs.items()}
            for name, value in session.run(fetch, feed).items():
                record[f"{key}/{name}"] = value
            record[f"{key}/method"] = np.array(signature.method_name)
            for name, tensor in sorted(signature.inputs.items()):
                shape = [dimension.size for dimension in tensor.tensor_shape.dim]
                record[f"{key}/input/{name}"] = np.array([tensor.dtype] + shape)
    return record


def record_run(program, estimator, model_dir):
    """Trains to step 200 and records the results."""
    hook = common.RecordLosses()
    estimator.train(program.train_input_fn, hooks=[hook], max_steps=STEPS)
    middle = os.path.join(model_dir, f"model.ckpt-{HALF}")
    test = program.test_input_fn
    record = {
        "losses": np.array(hook.losses),
        "tensorflow": np.array(tf.__version__),
        "estimator": np.array(type(estimator).__module__),
    }
    groups = {
        "metrics": estimator.evaluate(test, name="all"),
        "metrics_of_two_batches": estimator.evaluate(test, steps=2, checkpoint_path=middle),
        "predictions": stacked(estimator.predict(test)),
        "batch": next(estimator.predict(test, yield_single_examples=False)),
        "keys": next(estimator.predict(test, predict_keys=["logit"], checkpoint_path=middle)),
        "variables": variables(estimator.latest_checkpoint()),
    }
    if hasattr(program, "serving_request"):
        saved_model = estimator.export_saved_model(
            os.path.join(model_dir, "export"), program.serving_input_receiver_fn
        )
        groups["served"] = served(tf.compat.as_str_any(saved_model), program.serving_request())
    for group, values in groups.items():
        for name, value in values.items():
            record[f"{group}:{name}"] = np.asarray(value)
    return record


def main():
    """Parses arguments, runs the program, and saves the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--donor")
    parser.add_argument("--continue-only", action="store_true")
    args = parser.parse_args()
    for name in args.programs:
        program = importlib.import_module("programs." + name)
        endings = [] if args.continue_only else [""]
        endings += ["-continued"] if args.donor else []
        for ending in endings:
            model_dir = os.path.join(args.out, name + ending)
            if ending:
                adopt_checkpoint(os.path.join(args.donor, name), model_dir)
            record = record_run(program, program.make_estimator(model_dir), model_dir)
            np.savez(model_dir + ".npz", **record)


if __name__ == "__main__":
    main()
