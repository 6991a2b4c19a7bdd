# SPDX-License-Identifier: Apache-2.0
"""Results of a `model_fn`; inputs and outputs of exported models; warm start."""
