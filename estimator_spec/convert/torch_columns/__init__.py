# SPDX-License-Identifier: Apache-2.0
"""Makes programs of PyTorch of feature columns and canned estimators, without torch."""
