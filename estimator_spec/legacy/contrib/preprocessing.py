# SPDX-License-Identifier: Apache-2.0
"""Reimplements `tensorflow.contrib.learn.preprocessing` for text, on NumPy."""

from __future__ import annotations

import collections
import io
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

TOKENIZER_RE = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+")


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """Yields the words of each text."""
    yield from map(TOKENIZER_RE.findall, iterator)


class CategoricalVocabulary:
    """Ids of categories, in the order of their first use; 0 is any unknown one.

    Args:
        unknown_token: category of the id 0.
        support_reverse: whether `reverse` works.
    """

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown_token = unknown_token
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._support_reverse = support_reverse
        if support_reverse:
            self._reverse_mapping = [unknown_token]
        self._freq: dict[Any, int] = collections.defaultdict(int)
        self._freeze = False

    def __len__(self) -> int:
        """Returns the number of categories, with the unknown one."""
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Lets new categories be unknown from now on, or not if `freeze` is False."""
        self._freeze = freeze

    def get(self, category: Any) -> int:
        """Returns the id of a category, a new one if it is new and nothing is frozen."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._mapping[category] = len(self._mapping)
            if self._support_reverse:
                self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Counts a category."""
        if self.get(category) > 0:
            self._freq[category] = self._freq.get(category, 0) + count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keeps categories by their counts, and gives them new ids, the most frequent first.

        Args:
            min_frequency: those that were counted so often or less are removed.
            max_frequency: those that were counted so often or more are removed; -1: none.
        """
        by_name = sorted(self._freq.items(), key=lambda item: (isinstance(item[0], str), item[0]))
        by_count = sorted(by_name, key=lambda item: item[1], reverse=True)
        kept = [
            category
            for category, count in by_count
            if count > min_frequency and not 0 < max_frequency <= count
        ]
        self._mapping = {self._unknown_token: 0}
        self._mapping.update((category, number) for number, category in enumerate(kept, start=1))
        if self._support_reverse:
            self._reverse_mapping = [self._unknown_token, *kept]
        # As TensorFlow 1: the first ones, also if `max_frequency` removed some of them.
        self._freq = dict(by_count[: len(kept)])

    def reverse(self, class_id: int) -> Any:
        """Returns the category of an id.

        Raises:
            ValueError: `support_reverse` is False.
        """
        if not self._support_reverse:
            raise ValueError(
                "This vocabulary wasn't initialized with support_reverse to support reverse() "
                "function."
            )
        return self._reverse_mapping[class_id]


class VocabularyProcessor:
    """Makes texts rows of word ids.

    Args:
        max_document_length: words of a row; longer texts are cut, shorter ones padded with 0.
        min_frequency: `fit` removes words that were counted so often or less, if it is over 0.
        vocabulary: a `CategoricalVocabulary`. None: a new one.
        tokenizer_fn: function of an iterable of texts that yields the words of each. None:
            `tokenizer`.
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Callable[[Iterable[str]], Iterable[Iterable[str]]] | None = None,
    ) -> None:
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learns the words of texts, and freezes the vocabulary."""
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[Any]:
        """Learns the words of texts; yields the row of each."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[Any]:
        """Yields a row of int64 ids for each text."""
        for tokens in self._tokenizer(raw_documents):
            word_ids = np.zeros(self.max_document_length, np.int64)
            for place, token in zip(range(self.max_document_length), tokens, strict=False):
                word_ids[place] = self.vocabulary_.get(token)
            yield word_ids

    def reverse(self, documents: Iterable[Iterable[int]]) -> Iterator[str]:
        """Yields the words of each row, joined by spaces."""
        for item in documents:
            yield " ".join(self.vocabulary_.reverse(class_id) for class_id in item)

    def save(self, filename: str) -> None:
        """Writes the processor to a file, which `restore` reads."""
        with tf.io.gfile.GFile(filename, "wb") as file:
            file.write(pickle.dumps(self))

    @classmethod
    def restore(cls, filename: str) -> Any:
        """Reads a processor from a file of `save`, here or in TensorFlow 1.

        Raises:
            ValueError: the file has something else in it, such as a function that isn't the
                program's own.
        """
        with tf.io.gfile.GFile(filename, "rb") as file:
            return _Unpickler(file.read(), filename).load()


class ByteProcessor:
    """Makes texts rows of bytes.

    Args:
        max_document_length: bytes of a row; longer texts are cut, shorter ones padded with 0.
    """

    def __init__(self, max_document_length: int) -> None:
        self.max_document_length = max_document_length

    def fit(self, x: Any) -> None:
        """Does nothing."""

    def fit_transform(self, x: Iterable[str | bytes]) -> Iterator[Any]:
        """Yields the row of each text."""
        return self.transform(x)

    def transform(self, x: Iterable[str | bytes]) -> Iterator[Any]:
        """Yields a row of uint8 for each text."""
        for document in x:
            content = document.encode() if isinstance(document, str) else document
            row = np.frombuffer(content[: self.max_document_length], np.uint8)
            yield np.pad(row, (0, self.max_document_length - len(row)))

    def reverse(self, x: Iterable[Any]) -> Iterator[str]:
        """Yields the text of each row, '' if its bytes aren't UTF-8."""
        for data in x:
            content = np.trim_zeros(data.astype(np.uint8), trim="b").tobytes()
            try:
                yield content.decode()
            except UnicodeDecodeError:
                yield ""


class _Unpickler(pickle.Unpickler):
    """Reads processors, and nothing that could run other code."""

    _OLD = re.compile(r"tensorflow\.contrib\.learn\.python\.learn\.preprocessing\.\w+$")
    _BUILT_IN = ("int", "list", "object", "dict", "set", "str")

    def __init__(self, content: bytes, filename: str) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")  # strings of Python 2
        self._filename = filename

    def find_class(self, module: str, name: str) -> Any:
        """Returns what the file names."""
        if module == __name__ or self._OLD.match(module):
            return globals()[name]
        if (module, name) == ("collections", "defaultdict"):
            return collections.defaultdict
        if module in ("builtins", "__builtin__") and name in self._BUILT_IN:
            return super().find_class("builtins", name)
        if (module, name) in (("copy_reg", "_reconstructor"), ("copyreg", "_reconstructor")):
            return super().find_class("copyreg", name)
        if module == "__main__":
            return getattr(sys.modules[module], name)
        raise ValueError(
            f"{self._filename} needs {module}.{name}, which isn't loaded from files. A tokenizer "
            "has to be a function of the program itself; otherwise make the processor anew."
        )
