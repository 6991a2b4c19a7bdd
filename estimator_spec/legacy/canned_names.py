# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: canned estimators, whose two generations have the same names.

`tf.estimator` had the second generation, `tf.compat.v1.estimator` and
`tensorflow_estimator.estimator` the first. A program of
TensorFlow 1, whose `tf` is `tf.compat.v1`, gets the first.
"""

from __future__ import annotations

from estimator_spec.legacy.name_rows import Group

_V1 = "estimator_spec.canned.v1"
_V2 = "estimator_spec.canned"
_PLACES = "estimator_v1 estimator_py.estimator_lib"


def _family(module: str, family: str) -> tuple[Group, ...]:
    """Returns the names of a family of estimators.

    The module that defined them had both generations, the second with the suffix V2.

    Args:
        module: that module's name.
        family: the first part of the names.
    """
    place = f"estimator_py.canned.{module}"
    names = f"{family}Classifier {family}Regressor {family}Estimator"
    renamed = " ".join(f"{name}V2={name}" for name in names.split())
    return (
        Group("estimator_v2", _V2, names),
        Group(f"{_PLACES} {place}", _V1, f"{family}Classifier {family}Regressor"),
        Group(f"{_PLACES} {place} contrib.estimator", _V1, f"{family}Estimator"),
        Group(place, _V2, renamed),
    )


CANNED = (
    *_family("baseline", "Baseline"),
    *_family("dnn", "DNN"),
    *_family("dnn_linear_combined", "DNNLinearCombined"),
    *_family("linear", "Linear"),
    Group(
        "estimator_v1.experimental contrib.estimator estimator_py.canned.dnn",
        _V1,
        "dnn_logit_fn_builder",
    ),
    Group(
        "estimator_v1.experimental contrib.estimator estimator_py.canned.linear",
        _V1,
        "linear_logit_fn_builder",
    ),
    Group("estimator_py.canned.dnn", _V2, "dnn_logit_fn_builder_v2=dnn_logit_fn_builder"),
    Group("estimator_py.canned.linear", _V2, "linear_logit_fn_builder_v2=linear_logit_fn_builder"),
    Group(
        "estimator_py.canned.optimizers",
        "estimator_spec.canned.optimizers",
        "get_optimizer_instance=tf1_optimizer get_optimizer_instance_v2=keras_optimizer",
    ),
)
