# SPDX-License-Identifier: Apache-2.0
"""Adapter to TensorFlow's private modules and attributes: no other module uses them.

`private` holds names, `graph_surgery` changes graphs, `tpu_embedding` drives a TPU's embedding
core. Tried on TensorFlow 2.15.1, 2.16 and 2.21.
"""
