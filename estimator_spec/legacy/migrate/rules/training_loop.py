# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: what an estimator did, and a person has to write for the other targets."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.legacy.migrate.program import ParsedModule
from estimator_spec.legacy.migrate.results import Subject
from estimator_spec.legacy.migrate.rule import (
    LEAVING,
    MigrationRule,
    MigrationTarget,
    calls_of_ours,
)

_EXAMPLE = {
    MigrationTarget.MID_LEVEL: "examples/census/mid_level/train.py",
    MigrationTarget.KERAS_RS: "examples/census/keras_rs/train.py",
}
_MODEL_FN = {
    MigrationTarget.MID_LEVEL: (
        "A tf.function takes its place, which looks up, computes the loss, and applies the "
        "gradients of activations and variables"
    ),
    MigrationTarget.KERAS_RS: (
        "A keras.Model takes its place, which calls the embedding layer; `compile` gets loss, "
        "metrics and conversion.optimizer(…)"
    ),
}
_LAYERS = {
    MigrationTarget.MID_LEVEL: "TPUEmbedding, or serving_embedding_lookup off a TPU",
    MigrationTarget.KERAS_RS: "the DistributedEmbedding layer",
}
_EXPORT = {
    MigrationTarget.MID_LEVEL: "convert.to_serving and convert.save_serving export the embeddings",
    MigrationTarget.KERAS_RS: "model.export writes a SavedModel",
}
_LAYER_NAMES = ("input_layer", "sequence_input_layer", "linear_model")


def _places(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "TPUEstimator"):
        yield (
            call.start,
            f"A TPUEstimator doesn't train {target.value} configurations: write the training loop, "
            f"as {_EXAMPLE[target]} does.",
        )
    for call in calls_of_ours(program, "train_and_evaluate"):
        yield call.start, "The training loop evaluates and exports: write it."
    for call in calls_of_ours(program, "TPUEstimatorSpec"):
        yield call.start, f"This model_fn is called by a TPUEstimator only. {_MODEL_FN[target]}."
    if any(True for _ in calls_of_ours(program, "embedding_column", "shared_embedding_columns")):
        for call, name in program.calls_of(*_LAYER_NAMES):
            yield (
                call.start,
                f"{name.rpartition('.')[2]} creates the tables as the graph's variables. Pass the "
                f"model the activations of {_LAYERS[target]} in place of features and columns.",
            )
    for call, _ in program.calls_of("CrossShardOptimizer"):
        yield call.start, "A distribution strategy sums gradients: leave out CrossShardOptimizer."
    for call in program.calls:
        if call.use is None and call.method == "export_saved_model":
            yield call.line_of, f"An estimator's export: {_EXPORT[target]}."


RULE = MigrationRule(
    "training-loop",
    "report: what an estimator did, which a training loop has to do",
    "leaving-the-estimator",
    targets=LEAVING,
    places=_places,
    kind=Subject.NOT_REWRITTEN,
)
