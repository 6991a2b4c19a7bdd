# SPDX-License-Identifier: Apache-2.0
"""Variables of random canned models: those of TensorFlow 2.15.1, in the graph and in checkpoints.

`run_canned_variables.py` draws sixty models of each generation.
"""

from __future__ import annotations

import pytest

from goldens import CANNED_VARIABLES

pytestmark = [pytest.mark.reference, pytest.mark.slow]


@pytest.mark.parametrize("models", CANNED_VARIABLES.names)
def test_variables_have_the_names_and_shapes_of_the_reference(sides, models):
    """They are equal but for slots of shared tables, which 2.15.1's second generation has none of.

    It lists those tables as trainable, and doesn't train them.
    """
    run = sides(CANNED_VARIABLES, models)
    assert run.ours.keys() == run.reference.keys()
    built = {seed: theirs for seed, theirs in run.reference.items() if "error" not in theirs}
    assert len(built) >= 0.8 * len(run.reference) >= 9
    additional = 0
    for seed, theirs in built.items():
        ours = run.ours[seed]
        assert ours["model"] == theirs["model"]
        assert "error" not in ours, ours
        assert ours["trainable"] == theirs["trainable"]
        slots = [name for name in ours["saved"] if name not in theirs["saved"]]
        additional += len(slots)
        for name in slots:
            shared = name.split("/")[2]  # training/<optimizer>/<variable>/<slot>
            assert models.startswith("2") and shared in theirs["trainable"], (seed, name)
        assert {**ours["saved"], **theirs["saved"]} == ours["saved"]
    assert bool(additional) == models.startswith("2")
