# SPDX-License-Identifier: Apache-2.0
"""Reimplements `tf.contrib.learn`, and the feature columns of `tf.contrib.layers` that it took.

`columns` and `column_layers` are the columns and the layers over them; `heads`, `models` and
`canned` the canned estimators, whose variables have the names of TensorFlow 1.15's; `estimator`
has `Estimator`, which wraps that of `estimator_spec.core.driver`; `experiment` and `learn_runner` run
it.
"""
