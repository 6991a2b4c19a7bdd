# SPDX-License-Identifier: Apache-2.0
"""Builds queues in a graph that Python threads fill with rows of arrays while a session runs."""

from __future__ import annotations

import functools
import random
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def read_batch(
    features: Mapping[Any, Any],
    labels: Mapping[Any, Any],
    *,
    capacity: int,
    shuffle: bool,
    min_after_dequeue: float,
    num_threads: int,
    batch_size: int,
    num_epochs: int | None,
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Returns a batch of features and labels, read from a queue in the default graph.

    An element of the queue is a row number and that row of each array.

    Args:
        features: arrays of one length, by name.
        labels: likewise; may be empty.
        capacity: greatest number of rows in the queue.
        shuffle: whether rows are shuffled within the queue, starting at a random one.
        min_after_dequeue: least number of rows in the queue if they are shuffled.
        num_threads: number of threads that fill the queue.
        batch_size: number of rows in a batch, and that a thread adds at once.
        num_epochs: number of times that each thread reads all rows. None: no limit, and batches of
            static size.

    Returns:
        Tensors by name. A `MonitoredSession` starts the threads, as for every queue runner.
    """
    _warn_about_threads(num_threads, num_epochs, shuffle)
    columns = [*features.values(), *labels.values()]
    with tf1.name_scope("enqueue_input"):
        types = [tf.int64, *(tf.as_dtype(column.dtype) for column in columns)]
        shapes = [(), *(column.shape[1:] for column in columns)]
        kept = int(min_after_dequeue) if shuffle else 0
        if shuffle:
            queue = tf.queue.RandomShuffleQueue(capacity, kept, dtypes=types, shapes=shapes)
        else:
            queue = tf.queue.FIFOQueue(capacity, dtypes=types, shapes=shapes)
        length = len(columns[0])
        feeds = []
        for _ in range(num_threads):
            fed = [tf1.placeholder(dtype) for dtype in types]
            start = random.SystemRandom().randrange(length) if shuffle else 0
            rows = functools.partial(_row_numbers, length, start, batch_size, num_epochs)
            feeds.append((queue.enqueue_many(fed), fed, rows))
        tf1.add_to_collection(tf1.GraphKeys.QUEUE_RUNNERS, _Feeder(queue, feeds, columns))
        _summarize(queue, kept, max(capacity - kept, 1))
    dequeue = queue.dequeue_many if num_epochs is None else queue.dequeue_up_to
    _, *batch = dequeue(batch_size)
    values = dict(zip(features, batch, strict=False))
    return values, dict(zip(labels, batch[len(features) :], strict=True))


def _row_numbers(length: int, start: int, size: int, epochs: int | None) -> Iterator[Any]:
    """Yields arrays of `size` row numbers, cyclically from `start`, for some epochs or forever."""
    left = None if epochs is None else length * epochs
    while left is None or left > 0:
        count = size if left is None else min(size, left)
        yield (start + np.arange(count)) % length
        start = (start + count) % length
        left = None if left is None else left - count


def _summarize(queue: Any, kept: int, room: int) -> None:
    """Adds a summary of the queue's fill level; an empty queue means that the input is slow."""
    used = tf.cast(tf.maximum(0, queue.size() - kept), tf.float32)
    tf1.summary.scalar(f"queue/{queue.name}fraction_over_{kept}_of_{room}_full", used * (1 / room))


def _warn_about_threads(num_threads: int, num_epochs: int | None, shuffle: bool) -> None:
    if num_threads <= 1:
        return
    if num_epochs is not None:
        tf1.logging.warning(
            "num_threads=%d and num_epochs=%d: num_epochs is applied per thread, so every example "
            "is read %d times. Use one thread to limit the epochs.",
            num_threads,
            num_epochs,
            num_threads * num_epochs,
        )
    if not shuffle:
        tf1.logging.warning(
            "num_threads=%d and shuffle=False: several threads add examples in no fixed order. "
            "Use one thread to read them in order.",
            num_threads,
        )


class _Feeder(tf1.train.QueueRunner):
    """Queue runner that feeds rows of arrays, with a thread for each enqueue op.

    Args:
        queue: the queue.
        feeds: for each thread: enqueue op, its placeholders, and function that returns an iterator
            of the row numbers of a session.
        columns: the arrays.
    """

    def __init__(self, queue: Any, feeds: Sequence[Any], columns: Sequence[Any]) -> None:
        super().__init__(queue, [op for op, _, _ in feeds])
        self._feeds = feeds
        self._columns = columns
        self._threads_lock = threading.Lock()
        self._busy: Any = weakref.WeakKeyDictionary()

    def create_threads(
        self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Creates the threads of a session; none if threads of the session still run."""
        with self._threads_lock:
            if self._busy.get(sess):
                return []
            self._busy[sess] = len(self._feeds)
        threads = [
            threading.Thread(target=self._fill, args=(sess, coord, *feed)) for feed in self._feeds
        ]
        if coord:
            threads.append(threading.Thread(target=self._cancel, args=(sess, coord)))
        for thread in threads:
            thread.daemon = daemon
            if coord:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    def _fill(self, sess: Any, coord: Any, op: Any, fed: Sequence[Any], rows: Any) -> None:
        """Enqueues rows until none are left or the session stops."""
        ended = False
        try:
            for numbers in rows():
                if coord and coord.should_stop():
                    return
                values = [numbers, *(column[numbers] for column in self._columns)]
                sess.run(op, feed_dict=dict(zip(fed, values, strict=True)))
            ended = True
        except (tf.errors.OutOfRangeError, tf.errors.CancelledError):
            ended = True  # The queue was closed.
        except Exception as error:
            if coord is None:
                raise
            coord.request_stop(error)
        finally:
            with self._threads_lock:
                self._busy[sess] -= 1
                last = not self._busy[sess]
            if ended and last:
                self._close(sess, self.close_op)

    def _cancel(self, sess: Any, coord: Any) -> None:
        """Cancels pending enqueue ops when the session stops."""
        coord.wait_for_stop()
        self._close(sess, self.cancel_op)

    @staticmethod
    def _close(sess: Any, op: Any) -> None:
        try:
            sess.run(op)
        except (tf.errors.OpError, RuntimeError) as error:  # The session may be closed.
            tf1.logging.debug("Ignored exception while closing a queue: %s", error)
