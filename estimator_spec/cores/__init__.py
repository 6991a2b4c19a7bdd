# SPDX-License-Identifier: Apache-2.0
"""The embedding core: who owns the tables of an `EmbeddingConfigSpec`, looks up and trains them.

Without a core (the default on a CPU) tables are ordinary variables of the model: columns look up by
ops, and the model's own optimizer trains them. A core takes the ids out of a step's features, puts
activations in their place, and trains the tables by the *spec's* optimizer. `host` does so on any
machine, with the semantics of a TPU's embedding core.
"""
