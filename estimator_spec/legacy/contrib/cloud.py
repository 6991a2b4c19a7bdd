# SPDX-License-Identifier: Apache-2.0
"""Replaces `tensorflow.contrib.cloud`'s settings of Google Cloud Storage, which do nothing here."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


class BlockCacheParams:
    """Sizes of the cache of blocks.

    Args:
        block_size: bytes of a block. None: 128 MiB.
        max_bytes: bytes of the cache. None: two blocks.
        max_staleness: seconds for which a block is valid. None: 0.
    """

    def __init__(
        self,
        block_size: int | None = None,
        max_bytes: int | None = None,
        max_staleness: int | None = None,
    ) -> None:
        self.block_size = block_size or 128 << 20
        self.max_bytes = max_bytes or 2 * self.block_size
        self.max_staleness = max_staleness or 0


class ConfigureGcsHook(tf1.train.SessionRunHook):
    """Hook that does nothing, and says so.

    Args:
        credentials: not used.
        block_cache: not used.
    """

    def __init__(self, credentials: Any = None, block_cache: Any = None) -> None:
        _say_so()


def configure_gcs(
    session: Any, credentials: Any = None, block_cache: Any = None, device: Any = None
) -> None:
    """Does nothing, and says so once: Google's libraries find credentials by themselves."""
    _say_so()


def configure_colab_session(session: Any) -> None:
    """Does nothing, and says so once."""
    _say_so()


@functools.cache
def _say_so() -> None:
    tf1.logging.warning(
        "tf.contrib.cloud has nothing to configure here: files in gs:// are read with the "
        "credentials of the environment (GOOGLE_APPLICATION_CREDENTIALS, gcloud auth or the "
        "machine's account)."
    )
