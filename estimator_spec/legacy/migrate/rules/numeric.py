# SPDX-License-Identifier: Apache-2.0
"""Rules of the report: numbers that depend on the hardware, or differ in the target.

Each rule has a function that yields the places, and the text of the report.
"""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.legacy.migrate.program import NO_LITERAL, ParsedModule, literal
from estimator_spec.legacy.migrate.rule import (
    LEAVING,
    MigrationTarget,
    calls_of_ours,
    report,
)

# Sections of migration_guide.md.
_HARDWARE = "cpu-and-tpu-are-two-semantics"
_CHANGES = "what-changes"
_MOVING = "moving-on"

_TABLE_OPTIMIZER = {
    MigrationTarget.SHIM: (
        "On a CPU the model_fn's optimizer trains the tables, and optimization_parameters has no "
        "effect; on a TPU, and with embedding_core='host', only optimization_parameters does."
    ),
    MigrationTarget.MID_LEVEL: (
        "Each TableConfig has its own optimizer: the model's optimizer no longer moves tables, as "
        "it did on a CPU."
    ),
    MigrationTarget.KERAS_RS: (
        "Each table has its own Keras optimizer, which updates all rows in every step (except SGD "
        "and Adagrad); to_distributed_embedding(optimizers='core') keeps the embedding core's "
        "rules."
    ),
}


@report("table-optimizer", "which optimizer moves the tables", _HARDWARE)
def _table_optimizer(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "EmbeddingConfigSpec"):
        yield call.start, _TABLE_OPTIMIZER[target]


# Positions of `combiner` and `initializer` in the signatures.
_COMBINER = {"embedding_column": 2, "shared_embedding_columns": 2, "TableConfig": 3}
_INITIALIZER = {"embedding_column": 3, "shared_embedding_columns": 3, "TableConfig": 2}


@report("combiner-none", "combiner=None, whose meaning depends on the hardware", _HARDWARE)
def _combiner_none(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    del target
    for call in calls_of_ours(program, *_COMBINER):
        combiner = call.argument(_COMBINER[call.method], "combiner")
        if combiner is not None and literal(combiner) is None:
            yield (
                program.places.span(combiner)[0],
                "combiner=None is the mean on a CPU and the sum on a TPU (always the sum for "
                "tables in dictionaries). Write 'sum' or 'mean'.",
            )


_ZERO_ON_CORE = (
    "On a TPU, and with embedding_core='host', id 0 of a dense id tensor is padding and dropped, "
    "unless combiner is None; on a CPU it is looked up. Pass sparse or ragged ids to keep it."
)
_ZERO_AFTER = (
    "A dense id tensor keeps its id 0 here, which the TPU dropped as padding. convert.features_for "
    "prepares the input of a converted spec as the old program read it; TableConfigs of your own "
    "need sparse ids without the padding."
)


@report("id-zero", "id 0 in dense input, which is padding on a TPU", _HARDWARE)
def _id_zero(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "EmbeddingConfigSpec"):
        yield call.start, _ZERO_AFTER if target in LEAVING else _ZERO_ON_CORE


_INVALID_IDS = {
    MigrationTarget.SHIM: "; an id above the vocabulary is an error that names the column.",
    MigrationTarget.MID_LEVEL: "; TPUEmbedding doesn't check ids on a TPU.",
    MigrationTarget.KERAS_RS: (
        "; keras_rs reads the last row for -1. convert.features_for refuses them."
    ),
}


@report("invalid-ids", "negative ids and ids outside of the vocabulary", _CHANGES)
def _invalid_ids(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    unsafe = "Without use_safe_embedding_lookup a negative id is an error"
    safe = "By default use_safe_embedding_lookup drops negative ids"
    for call in calls_of_ours(program, "embedding_column", "shared_embedding_columns"):
        argument = call.argument(99, "use_safe_embedding_lookup")
        if argument is not None and literal(argument) in (False, NO_LITERAL):
            yield program.places.span(argument)[0], unsafe + _INVALID_IDS[target]
        elif target in LEAVING:
            yield call.start, safe + _INVALID_IDS[target]


# Position of `num_oov_buckets` in the signatures.
_BUCKETS = {
    "categorical_column_with_vocabulary_file": 3,
    "categorical_column_with_vocabulary_list": 4,
    "sequence_categorical_column_with_vocabulary_file": 3,
    "sequence_categorical_column_with_vocabulary_list": 3,
}


@report("out-of-vocabulary", "position of the rows of unknown words", _MOVING, LEAVING)
def _out_of_vocabulary(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    del target
    for call, _ in program.calls_of(*_BUCKETS):
        buckets = call.argument(_BUCKETS[call.method], "num_oov_buckets")
        if buckets is not None and literal(buckets) not in (None, 0):
            yield (
                program.places.span(buckets)[0],
                "Rows of unknown words (num_oov_buckets) come after the vocabulary's. Keras' "
                "StringLookup puts them first: keep the column's lookup, or permute the rows "
                "(checkpoint convert --vocabulary).",
            )


_SPREAD = "Without an initializer the table starts from a truncated normal of spread 1/√dimension"
_INITIALIZER_SPREAD = {
    MigrationTarget.SHIM: (
        f"{_SPREAD}, whose values differ between TensorFlow versions. Give an initializer a seed "
        "to compare runs, or start from a checkpoint."
    ),
    MigrationTarget.MID_LEVEL: f"{_SPREAD}, as TableConfig does; its values differ without a seed.",
    MigrationTarget.KERAS_RS: (
        f"{_SPREAD}; keras_rs' own default is VarianceScaling(mode='fan_out'). Pass the "
        "initializer, as to_distributed_embedding does."
    ),
}


@report("initializer-spread", "tables without an initializer", _CHANGES)
def _initializer_spread(
    program: ParsedModule, target: MigrationTarget
) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, *_INITIALIZER):
        initializer = call.argument(_INITIALIZER[call.method], "initializer")
        if call.unpacks() or (initializer is not None and literal(initializer) is not None):
            continue
        yield call.start, _INITIALIZER_SPREAD[target]


_ADAM = (
    "The embedding core's Adam has no bias correction: pass learning_rate·√(1-β₂ᵗ)/(1-β₁ᵗ) as a "
    "dynamic rate to have it"
)
_ADAM_EPSILON = {
    MigrationTarget.SHIM: f"{_ADAM}. On a CPU the model_fn's optimizer trains the tables instead.",
    MigrationTarget.MID_LEVEL: f"{_ADAM}; TPUEmbedding's Adam is the same.",
    MigrationTarget.KERAS_RS: (
        f"{_ADAM}. Keras' Adam has it, and epsilon 1e-7 in place of 1e-8: "
        "conversion.optimizer undoes the correction and passes epsilon."
    ),
}


@report("adam-epsilon", "epsilon and bias correction of Adam", _MOVING)
def _adam_epsilon(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "AdamParameters"):
        yield call.start, _ADAM_EPSILON[target]
    if target in LEAVING:
        for call, _ in program.calls_of("AdamOptimizer"):
            if call.argument(3, "epsilon") is None:
                yield (
                    call.start,
                    "tf.compat.v1.train.AdamOptimizer has epsilon 1e-8 inside of its bias "
                    "correction; Keras' Adam has 1e-7.",
                )


@report("rmsprop-start", "start of RMSProp's mean square", _HARDWARE)
def _rmsprop_start(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "RMSPropParameters"):
        yield (
            call.start,
            "RMSProp's mean square starts at 0 on an embedding core, and at 1 in "
            "tf.compat.v1.train.RMSPropOptimizer, which trains the tables on a CPU.",
        )
    if target in LEAVING:
        for call, _ in program.calls_of("RMSPropOptimizer"):
            yield (
                call.start,
                "The mean square of tf.compat.v1.train.RMSPropOptimizer starts at 1, that of "
                "Keras' RMSprop at 0: its first steps are larger.",
            )


# Position of `drop_remainder` in the methods' signatures.
_REMAINDER = {"batch": 1, "padded_batch": 3}


@report("drop-remainder", "batches of a TPUEstimator without drop_remainder=True", _HARDWARE)
def _drop_remainder(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    del target
    if not any(call.method == "TPUEstimator" for call in program.calls):
        return
    for call in program.calls:
        if call.use is None and call.method in _REMAINDER and not call.unpacks():
            remainder = call.argument(_REMAINDER[call.method], "drop_remainder")
            if remainder is None or literal(remainder) is False:
                yield (
                    call.line_of,
                    "Without drop_remainder=True the last batch is smaller: a TPU and "
                    "embedding_core='host' with replicas refuse it in training, elsewhere it "
                    "counts as a batch in the mean loss.",
                )


RULES = (
    _table_optimizer,
    _combiner_none,
    _id_zero,
    _invalid_ids,
    _out_of_vocabulary,
    _initializer_spread,
    _adam_epsilon,
    _rmsprop_start,
    _drop_remainder,
)
