# SPDX-License-Identifier: Apache-2.0
"""Classes that Keras and keras_rs don't have. Modules here are imported when Keras is needed.

Written programs have copies of what they use of `row_gradients`, `whole_gradients`, `optimizers`
and `layers`.
"""
