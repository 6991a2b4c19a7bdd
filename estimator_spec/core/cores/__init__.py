# SPDX-License-Identifier: Apache-2.0
"""Embedding cores: look up and train the tables of an `EmbeddingConfigSpec`.

Without a core (the default on a CPU) tables are variables of the model: columns look up by ops, and
the model's optimizer trains the tables. A core replaces the ids in a step's features by
activations, and trains the tables by the *spec's* optimizer. `host` does so on any machine, with
the semantics of a TPU's embedding core; `tpu` uses the TPU's own.
"""
