# SPDX-License-Identifier: Apache-2.0
"""Differences planted in a written program: the proof finds each, and names it."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from estimator_spec.compare.comparison import Outcome
from estimator_spec.compare.stages import Stage, Tolerances
from estimator_spec.convert.keras_program import batches, proof, training, written
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.core.user_functions.model_spec import ModeKeys

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("visitors.py")
TOLERANCES = Tolerances(*proof.RULES)

# What is planted, the place in model.py, what is there instead, and the item that shows it. Several
# are planted at once, of which each shows in an item of its own.
COLUMNS = {
    "a normalizer": ("- 40.0) / 20.0", "- 40.0) / 20.1", "age"),
    "a default value": ('"Lima"]), default=1', '"Lima"]), default=2', "linear city"),
    "an order of words": ('["new", "old"]', '["old", "new"]', "tags_embedding"),
    "weights of ids": (
        "count_weights=page_weights",
        "count_weights=1.5 * page_weights",
        "page_indicator",
    ),
    "a boundary": ("[20.0, 40.0, 60.0]", "[20.0, 50.0, 60.0]", "linear age_bucketized_X_city"),
}
MORE_COLUMNS = {
    "buckets of unknown words": ("oov_buckets=1", "default=-1", "tags_embedding"),
    "ids beyond a vocabulary": (", 8, 0)),", ", 8, 1)),", "page_indicator"),
    "a hash of crosses": ("            16,\n", "            15,\n", "linear age_bucketized_X_city"),
    "a combiner": (
        '3, 2, combiner="mean", name="tags',
        '3, 2, combiner="sum", name="tags',
        "tags_embedding",
    ),
}
OUTPUTS = {
    "a missing prediction": (
        '"all_classes": tf.gather(labels, all_ids),',
        "",
        "all_classes",
    ),
    "an order of classes": ('CLASSES = ["no", "yes"]', 'CLASSES = ["yes", "no"]', "classes"),
    "a dtype": ("class_ids = tf.cast(class_ids, tf.int64)", "pass", "class_ids"),
    "an activation of the output": (
        "keras.ops.softmax(two_class_logits)",
        "keras.ops.sigmoid(two_class_logits)",
        "probabilities",
    ),
}
METRICS = {
    "a missing metric": ('keras.metrics.Recall(name="recall"),', "", "recall"),
    "a metric more": (
        'keras.metrics.AUC(name="auc"),',
        'keras.metrics.AUC(name="auc"), keras.metrics.Recall(name="also"),',
        "logistic_also",
    ),
    "a changed metric": (', curve="PR"', "", "auc_precision_recall"),
    "a threshold": (
        '_0.25", threshold=0.25',
        '_0.25", threshold=0.999',
        "accuracy/positive_threshold_0.25",
    ),
}
LOSS = {
    "a reduction of the loss": ('"sum_over_batch_size"', '"sum"', "loss"),
    "weights of examples": ("targets, weights", "targets", "average_loss"),
    "an order of labels": (
        'LABEL_VOCABULARY = vocabulary_table(words_in_order(["no", "yes"]))',
        'LABEL_VOCABULARY = vocabulary_table(words_in_order(["yes", "no"]))',
        "label/mean",
    ),
}
ADAM, FTRL = "learning_rate=0.02", "learning_rate=0.1,"
LOSSES = "50 further steps"
TRAINING = {
    "a learning rate": (ADAM, "learning_rate=0.0205", LOSSES),
    "a schedule": (
        ADAM,
        "learning_rate=keras.optimizers.schedules.ExponentialDecay(0.02, 20, 0.9)",
        LOSSES,
    ),
    "an argument of the optimizer": ("beta_1=0.8", "beta_1=0.9", LOSSES),
    "clipping by value": (ADAM, f"clipvalue=0.01, {ADAM}", LOSSES),
    "clipping by norm": (FTRL, f"clipnorm=0.01, {FTRL}", LOSSES),
    "clipping of all": (ADAM, f"global_clipnorm=0.05, {ADAM}", LOSSES),
    "an argument of the other one": (
        "l2_regularization_strength=0.01",
        "l2_regularization_strength=0.02",
        "linear/linear_model/city/weights",
    ),
    "another optimizer": (" Adam(learning_rate=0.02, beta_1=0.8,", " keras.optimizers.AdamW(", ""),
    "a wide optimizer for a deep column": (
        '"linear_bias"]',
        '"linear_bias", "city_embedding"]',
        "",
    ),
    "a deep optimizer for a wide column": (
        '"linear_city", "linear_bias"',
        '"linear_bias"',
        "linear/linear_model/city/weights",
    ),
    "gradients of a row one by one": (
        "return tf.IndexedSlices(values, rows,",
        "return gradient #",
        "",
    ),
    "a rate of dropout": ("Dropout(0.25)", "Dropout(0.3)", LOSSES),
    "a momentum of batch norm": (
        "momentum=0.999",
        "momentum=0.99",
        "dnn/hiddenlayer_0/batchnorm_0/moving_mean",
    ),
    "a frozen table": (
        '2, combiner="mean", name="city',
        '2, trainable=False, combiner="mean", name="city',
        "dnn/input_from_feature_columns/input_layer/city_embedding/embedding_weights",
    ),
    "features that are missing": ('example_weights(features, "weight")', 'features["-"]', LOSSES),
}
STATES = ("slots", "step", "a weight")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Returns the use of a trained estimator, its program's sources and its batches."""
    spec = importlib.util.spec_from_file_location("visitors", PROGRAM)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    folder = tmp_path_factory.mktemp("visitors")
    estimator = program.make_estimator(str(folder / "models"))
    # Keras 2 may take the seeds of initial values from it, whatever tf_random_seed says.
    state = random.getstate()
    random.seed(1)
    estimator.train(program.input_fn)
    random.setstate(state)
    use = EstimatorUse(
        estimator, estimator.canned_model, (), None, program.input_fn, ModeKeys.TRAIN
    )
    sources = written.plan_program(use, estimator.model_dir, "visitors.py", "")
    found = batches.read_batches(use, training.STEPS)
    assert len({len(batch.labels) for batch in found}) == 2  # the last one is smaller
    return use, sources, found


@pytest.fixture(scope="module")
def trained(sound, tmp_path_factory):
    """Returns the estimator's further steps."""
    return training.train_estimator(*sound, str(tmp_path_factory.mktemp("trained")))


@pytest.fixture
def load(sound, tmp_path):
    """Returns a function that loads model.py with other texts in it, and its trained model."""

    def make(*changes):
        _, sources, _ = sound
        text = sources.texts["model.py"]
        for old, new, *_ in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (tmp_path / "model.py").write_text(text)
        return written.load_program(sources, written.load_module(str(tmp_path)))

    return make


def check(items, plants, prefix=""):
    """Checks that the item of each planted difference doesn't agree, or that one doesn't."""
    wrong = {item.name for item in items if not item.agrees}
    for what, (*_, name) in plants.items():
        assert f"{prefix}{name}" in wrong if name else wrong, (what, wrong)


def test_nothing_is_planted(sound, load):
    """Without a plant all agree, to the last key: predictions, metrics, steps, values and slots."""
    use, _, found = sound
    made = batches.edge_batch(found[0], batches.known_values(use))
    result = proof.compare(use, load(), [*found[:1], made], [], found)
    assert result.agrees, result.headline
    assert not result.remarks
    names = {item.name for item in result.items}
    assert {"batch 1: all_classes", "edge values: logits", LOSSES, "global_step"} <= names
    variables = {item.name for item in result.of(Stage.TRAINED_VALUES)}
    slots = [name for name in variables if name.startswith("training/")]
    # Two of each of the nine trained variables of Adam, and of the three of FTRL.
    assert len(slots) == 2 * (8 + 3), sorted(slots)
    assert "dnn/hiddenlayer_0/batchnorm_0/moving_variance" in variables


@pytest.mark.parametrize(
    ("plants", "prefix"),
    [
        pytest.param({**COLUMNS, **OUTPUTS}, "batch 1: ", id="columns and outputs"),
        pytest.param(METRICS, "", id="metrics"),
        pytest.param(
            MORE_COLUMNS,
            "edge values: ",
            id="more columns",
            marks=pytest.mark.nightly("further columns; the others are planted with every change"),
        ),
    ],
)
def test_each_shows_in_its_item(plants, prefix, sound, load):
    """A difference of a column, a prediction or a metric is that item's, among others, too."""
    use, _, found = sound
    given = found[:3]
    if prefix == "edge values: ":
        given = [batches.edge_batch(found[0], batches.known_values(use))]
    result = proof.compare(use, load(*plants.values()), given, [])
    check(result.items, plants, prefix)


@pytest.mark.nightly("a proof for each; their steps of training are compared with every change")
@pytest.mark.parametrize("plant", LOSS)
def test_a_loss_shows_in_the_metrics(plant, sound, load):
    """A difference of the loss, of weights or of labels is found without a step of training."""
    use, _, found = sound
    result = proof.compare(use, load(LOSS[plant]), found[:1], [])
    assert {item.stage for item in result.items if not item.agrees} == {Stage.METRICS}
    check(result.items, {plant: LOSS[plant]})


@pytest.mark.parametrize("plant", [*TRAINING, *LOSS])
def test_a_plant_shows_in_training(plant, sound, trained, load):
    """Another optimizer, argument, schedule, clipping or loss is found by further steps."""
    change = {**TRAINING, **LOSS}[plant]
    items, _ = training.compare_with(trained, load(change), TOLERANCES)
    name = change[2] if plant in TRAINING else LOSSES
    check(items, {plant: (name,)})


@pytest.mark.parametrize("state", STATES)
def test_a_state_shows_in_training(state, sound, trained, load):
    """Slots, the step or a weight that weren't moved are found by further steps."""
    program = load()
    if state == "a weight":
        layer = program.model.get_layer("logits_layer")
        layer.bias.assign(layer.bias + 0.01)
    else:
        for variable in program.model.optimizer.variables:
            if variable.path.endswith("iteration" if state == "step" else "_momentum"):
                variable.assign(variable * 0)
    items, _ = training.compare_with(trained, program, TOLERANCES)
    assert not items[0].agrees
    if state == "step":
        assert items[0].series is not None
        assert "global_step" in {item.name for item in items if not item.agrees}


def test_a_variable_without_a_partner(sound, trained, load):
    """A slot that only one side has is an item, for each side."""
    amsgrad = (ADAM, f"amsgrad=True, {ADAM}")
    items, _ = training.compare_with(trained, load(amsgrad), TOLERANCES)
    lone = {item.name for item in items if item.outcome is Outcome.ONLY_NEW}
    assert len(lone) == 8 and all("velocity_hat" in name for name in lone), lone
    adam = "Adam(learning_rate=0.02, beta_1=0.8, beta_2=0.999, epsilon=1e-07)"
    program = load((f" {adam}", " keras.optimizers.SGD(0.02)"))
    items, _ = training.compare_with(trained, program, TOLERANCES)
    lone = {item.name for item in items if item.outcome is Outcome.ONLY_OLD}
    assert "training/Adam/dnn/logits/bias/m" in lone
