# SPDX-License-Identifier: Apache-2.0
"""Optimizer parameters: arguments, checks, equality and copies, slot variables."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.core.embedding import optimizers
from estimator_spec.core.embedding.optimizers import (
    AdagradMomentumParameters,
    AdagradParameters,
    AdamParameters,
    FrequencyEstimatorParameters,
    FtrlParameters,
    MomentumParameters,
    OptimizationParameters,
    ProximalAdagradParameters,
    ProximalYogiParameters,
    RMSPropParameters,
    StochasticGradientDescentParameters,
    slot_initial_values,
    slot_names,
)

# Each class with the arguments that it can't do without.
REQUIRED = {
    AdagradParameters: (0.1,),
    AdagradMomentumParameters: (0.1, 0.9),
    ProximalAdagradParameters: (0.1,),
    AdamParameters: (0.1,),
    FtrlParameters: (0.1,),
    ProximalYogiParameters: (),
    MomentumParameters: (0.1, 0.9),
    RMSPropParameters: (0.1, 0.9, 0.5, 1e-8),
    StochasticGradientDescentParameters: (0.1,),
    FrequencyEstimatorParameters: (0.5, 100.0, 3.0, 0.75),
}
LEARNING = [kind for kind in REQUIRED if kind is not FrequencyEstimatorParameters]

BAD_RANGES = [
    (AdagradParameters, {"initial_accumulator": 0}, "initial_accumulator must be greater than ze"),
    (ProximalAdagradParameters, {"initial_accumulator": -1}, "initial_accumulator must be positi"),
    (AdagradMomentumParameters, {"epsilon": 0}, "Adagrad momentum: epsilon must be positive"),
    (AdagradMomentumParameters, {"exponent": 0}, "Precondition exponent must >0"),
    (
        AdamParameters,
        {"lazy_adam": False, "use_gradient_accumulation": False},
        "When disabling Lazy Adam, gradient accumulation must be used",
    ),
    (FtrlParameters, {"learning_rate_power": 0.1}, "learning_rate_power must be less than or eq"),
    (FtrlParameters, {"initial_accumulator_value": -0.1}, "initial_accumulator_value must be grea"),
    *(
        (kind, {name: wrong}, f"{name} must be between 0. and 1; got {wrong}")
        for kind in (AdamParameters, ProximalYogiParameters)
        for name in ("beta1", "beta2")
        for wrong in (-0.1, 1.0)
    ),
    *(
        (kind, {"epsilon": 0.0}, "epsilon must be positive; got 0.0")
        for kind in (AdamParameters, ProximalYogiParameters)
    ),
    *(
        (kind, {name: -0.1}, f"{name} must be greater than or equal to 0. got -0.1")
        for kind in (ProximalAdagradParameters, ProximalYogiParameters, FtrlParameters)
        for name in ("l1_regularization_strength", "l2_regularization_strength")
    ),
    *(
        (
            kind,
            {"use_gradient_accumulation": False, limit: 0.5},
            "When using gradient clipping limits, gradient .?accumulation must be enabled",
        )
        for kind in LEARNING
        for limit in ("clip_gradient_min", "clip_gradient_max")
    ),
]
SLOTS = {
    AdagradParameters: {"accumulator": ("w/Adagrad", 0.1)},
    AdagradMomentumParameters: {
        "accumulator": ("w/AdagradMomentum/Accumulator", 0.0),
        "momenta": ("w/AdagradMomentum/Momentum", 0.0),
    },
    ProximalAdagradParameters: {"accumulator": ("w/ProximalAdagrad", 0.1)},
    AdamParameters: {"m": ("w/Adam/m", 0.0), "v": ("w/Adam/v", 0.0)},
    FtrlParameters: {"accumulator": ("w/Ftrl", 0.1), "linear": ("w/Ftrl_1", 0.0)},
    ProximalYogiParameters: {"v": ("w/ProximalYogi", 1e-6), "m": ("w/ProximalYogi_1", 0.0)},
    MomentumParameters: {"momenta": ("w/Momentum", 0.0)},
    RMSPropParameters: {"ms": ("w/RMSProp/ms", 0.0), "mom": ("w/RMSProp/mom", 0.0)},
    StochasticGradientDescentParameters: {},
    FrequencyEstimatorParameters: {"last_hit_step": ("w/FrequencyEstimator", 0.0)},
}

every_kind = pytest.mark.parametrize("kind", REQUIRED, ids=lambda kind: kind.__name__)


def minimal(kind, **values):
    """Returns an optimizer with its required arguments and the given ones."""
    names = list(inspect.signature(kind).parameters)[: len(REQUIRED[kind])]
    return kind(**{**dict(zip(names, REQUIRED[kind], strict=True)), **values})


@st.composite
def parameters(draw):
    """Generates optimizers with valid values for all arguments."""
    kind = draw(st.sampled_from(list(REQUIRED)))
    unit = st.floats(0.01, 0.99)
    special = {
        "learning_rate_power": st.floats(-2, 0),
        "exponent": st.floats(0.5, 4),
        "max_delta": st.floats(1, 1e6),
    }
    values = {}
    for name, argument in inspect.signature(kind).parameters.items():
        annotation = str(argument.annotation)
        values_of = st.booleans() if annotation.startswith("bool") else special.get(name, unit)
        values[name] = draw(st.none() | values_of if "None" in annotation else values_of)
    for what in ("weight", "gradient"):
        low, high = f"clip_{what}_min", f"clip_{what}_max"
        if values.get(low) is not None and values.get(high) is not None:
            values[low], values[high] = sorted((values[low], values[high]))
    if "use_gradient_accumulation" in values:
        values["use_gradient_accumulation"] = True
    return kind, values


class TestArguments:
    @every_kind
    def test_common_defaults(self, kind):
        """By default gradients are accumulated, and nothing is clipped or decayed."""
        made = kind(*REQUIRED[kind])
        assert made.use_gradient_accumulation is True
        for name in ("clip_weight_min", "clip_weight_max", "weight_decay_factor"):
            assert getattr(made, name) is None
        assert made.multiply_weight_decay_factor_by_learning_rate is None
        assert made.clip_gradient_min is made.clip_gradient_max is None

    def test_own_defaults(self):
        """The defaults of each optimizer's own parameters."""
        adam = AdamParameters(0.1)
        assert (adam.beta1, adam.beta2, adam.epsilon) == (0.9, 0.999, 1e-8)
        assert adam.lazy_adam is adam.sum_inside_sqrt is True
        assert AdagradParameters(0.1).initial_accumulator == 0.1
        ftrl = FtrlParameters(0.1)
        assert (ftrl.learning_rate_power, ftrl.initial_accumulator_value) == (-0.5, 0.1)
        assert (ftrl.initial_linear_value, ftrl.beta) == (0, 0)
        assert ProximalYogiParameters().learning_rate == 0.01
        assert FrequencyEstimatorParameters(0.5, 100, 3, 0.75).learning_rate == 1.0

    def test_positions(self):
        """The first arguments can be given by position."""
        assert AdagradParameters(0.1, 0.2).initial_accumulator == 0.2
        assert AdamParameters(0.1, 0.8, 0.9, 1e-6).epsilon == 1e-6
        assert MomentumParameters(0.1, 0.9, True).use_nesterov is True
        assert RMSPropParameters(0.1, 0.2, 0.3, 0.4).momentum == 0.3
        assert FrequencyEstimatorParameters(1, 2, 3, 4).outlier_threshold == 3

    def test_a_frequency_estimator_learns_nothing(self):
        """Parameters that the frequency estimator fixes are no arguments."""
        with pytest.raises(TypeError, match="learning_rate"):
            FrequencyEstimatorParameters(0.5, 100, 3, 0.75, learning_rate=0.1)

    @pytest.mark.parametrize("kind, values, message", BAD_RANGES)
    def test_values_out_of_range(self, kind, values, message):
        """Values out of range are refused with the parameter's message."""
        with pytest.raises(ValueError, match=message):
            minimal(kind, **values)

    @pytest.mark.parametrize("kind", LEARNING)
    @pytest.mark.parametrize("what", ["weight", "gradient"])
    def test_crossed_limits(self, kind, what):
        """A lower limit above the upper one is refused; equal ones are not."""
        limits = {f"clip_{what}_min": 1.0, f"clip_{what}_max": 0.5}
        with pytest.raises(ValueError, match=f"clip_{what}_min must not be greater than"):
            minimal(kind, **limits)
        minimal(kind, **{f"clip_{what}_min": 0.5, f"clip_{what}_max": 0.5})

    @every_kind
    @pytest.mark.parametrize("wrong", ["0.1", [0.1], {}, float("nan"), 1j, object()])
    def test_values_of_another_type(self, kind, wrong):
        """Any argument of another type is a TypeError naming class, argument and value."""
        for name in inspect.signature(kind).parameters:
            with pytest.raises(TypeError, match=f"{kind.__name__}: {name} must be "):
                minimal(kind, **{name: wrong})

    def test_flags_are_no_numbers(self):
        """Numbers as flags and flags as numbers are refused."""
        with pytest.raises(TypeError, match="use_gradient_accumulation must be True or False"):
            AdagradParameters(0.1, 0.1, -1.0)
        with pytest.raises(TypeError, match="momentum must be a number; got True"):
            MomentumParameters(0.1, True)
        assert MomentumParameters(0.1, 0.9, 1).use_nesterov is True
        assert MomentumParameters(0.1, 0.9, np.bool_(False)).use_nesterov is False

    def test_a_rate_may_be_left_to_the_tables(self):
        """`learning_rate` may be None."""
        assert AdagradParameters(None).learning_rate is None

    def test_the_base(self):
        """All optimizers are instances of `OptimizationParameters`."""
        assert all(issubclass(kind, OptimizationParameters) for kind in REQUIRED)


class TestValues:
    @given(drawn=parameters())
    def test_they_are_values(self, drawn):
        """Copies, pickles and the evaluated `repr` equal the original."""
        kind, values = drawn
        made = kind(**values)
        for other in (
            kind(*values.values()),
            copy.deepcopy(made),
            pickle.loads(pickle.dumps(made)),
            dataclasses.replace(made),
            eval(repr(made), vars(optimizers)),
        ):
            assert other == made
            assert hash(other) == hash(made)
        assert {name: getattr(made, name) for name in values} == values

    @given(drawn=parameters(), data=st.data())
    def test_every_argument_counts(self, drawn, data):
        """Optimizers that differ in one argument are unequal."""
        kind, values = drawn
        made = kind(**values)
        name = data.draw(st.sampled_from(sorted(set(values) - {"use_gradient_accumulation"})))
        old = getattr(made, name)
        new = (not old) if isinstance(old, bool) else -0.001 if name.endswith("power") else 0.005
        if old is None and str(inspect.signature(kind).parameters[name].annotation)[:4] == "bool":
            new = True
        if name in ("clip_weight_max", "clip_gradient_max"):
            new = 2.0
        assert dataclasses.replace(made, **{name: new}) != made

    def test_kinds_differ(self):
        """Optimizers of different classes with the same values are unequal."""
        assert AdagradParameters(0.1) != StochasticGradientDescentParameters(0.1)
        assert len({kind(*REQUIRED[kind]) for kind in REQUIRED}) == len(REQUIRED)

    def test_they_can_not_be_changed(self):
        """Attributes can't be assigned."""
        with pytest.raises(dataclasses.FrozenInstanceError):
            AdagradParameters(0.1).learning_rate = 0.2

    def test_numbers_of_numpy_are_numbers(self):
        """NumPy scalars become Python numbers."""
        made = AdagradParameters(np.float64(0.1), np.int32(1))
        assert made == AdagradParameters(0.1, 1)
        assert type(made.learning_rate) is float
        assert "np." not in repr(made)


class TestSlots:
    @every_kind
    def test_names_and_first_values(self, kind):
        """Names and initial values of the slot variables, in order."""
        made = kind(*REQUIRED[kind])
        expected = SLOTS[kind]
        assert list(slot_names(made, "w").items()) == [(k, v[0]) for k, v in expected.items()]
        assert list(slot_initial_values(made).items()) == [(k, v[1]) for k, v in expected.items()]

    def test_first_values_follow_the_parameters(self):
        """Initial values of accumulators follow the parameters."""
        assert slot_initial_values(AdagradParameters(0.1, 0.5)) == {"accumulator": 0.5}
        assert slot_initial_values(FtrlParameters(0.1, initial_accumulator_value=0.0)) == {
            "accumulator": 0.0,
            "linear": 0.0,
        }

    @given(drawn=parameters(), name=st.text("ab_/", min_size=1))
    def test_slots_begin_with_the_variable(self, drawn, name):
        """Slot names of a table are distinct and begin with its name."""
        kind, values = drawn
        names = slot_names(kind(**values), name)
        assert len(set(names.values())) == len(names)
        assert all(full.startswith(f"{name}/") for full in names.values())

    def test_other_things_have_no_slots(self):
        """Other objects are refused with a hint."""
        with pytest.raises(TypeError, match="one of estimator_spec's parameter classes"):
            slot_names("adagrad", "w")


@pytest.fixture(scope="module")
def old_module():
    """TensorFlow 2.15's module of these classes."""
    return pytest.importorskip(
        "tensorflow.python.tpu.tpu_embedding",
        reason="this TensorFlow has no tpu_embedding to compare with (2.15 has)",
    )


@pytest.mark.reference
class TestAgainstTheOldClasses:
    @every_kind
    def test_signatures(self, old_module, compare, kind):
        """Names, order and defaults of all arguments equal TensorFlow 2.15's."""
        old = getattr(old_module, kind.__name__)
        assert compare.parameters(kind) == compare.parameters(old)

    @every_kind
    def test_attributes(self, old_module, kind):
        """Every attribute of TensorFlow 2.15's object exists, with the same value."""
        old = getattr(old_module, kind.__name__)(*REQUIRED[kind])
        new = kind(*REQUIRED[kind])
        assert {name: getattr(new, name) for name in vars(old)} == vars(old)

    @pytest.mark.parametrize("kind, values, message", BAD_RANGES)
    def test_refusals(self, old_module, compare, kind, values, message):
        """TensorFlow 2.15 refuses the same values with the same words."""
        names = list(inspect.signature(kind).parameters)[: len(REQUIRED[kind])]
        values = {**dict(zip(names, REQUIRED[kind], strict=True)), **values}
        compare.refuse_alike(kind, getattr(old_module, kind.__name__), message, **values)

    @every_kind
    def test_slot_names(self, old_module, kind):
        """Slot names equal TensorFlow 2.15's."""
        old = getattr(old_module, kind.__name__)(*REQUIRED[kind])
        handler = old_module._get_optimization_handler(old)
        names = handler.get_default_slot_variable_names("layer/w")
        new = slot_names(kind(*REQUIRED[kind]), "layer/w")
        assert new == (dict(names._asdict()) if names is not None else {})
