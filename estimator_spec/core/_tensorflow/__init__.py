# SPDX-License-Identifier: Apache-2.0
"""Adapter to TensorFlow's private modules and attributes: no other module may use them.

`private` holds names and attributes, `graph_surgery` changes graphs, `tpu_embedding` runs a TPU's
embedding core. Tried on TensorFlow 2.15.1, 2.16 and 2.21.
"""
