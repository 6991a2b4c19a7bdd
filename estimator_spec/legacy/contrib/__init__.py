# SPDX-License-Identifier: Apache-2.0
"""What `tensorflow.contrib` had and no installed library has."""
