# SPDX-License-Identifier: Apache-2.0
"""Rows of an old vocabulary in a new one."""

from __future__ import annotations

from estimator_spec.checkpoints import vocabulary


def files_of(tmp_path, *texts):
    """Vocabulary files, a letter a line."""
    paths = [tmp_path / f"{number}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text("\n".join(text) + "\n")
    return map(str, paths)


def test_words_without_a_row_are_new(tmp_path):
    """Of an old file only as many words count as the table has rows, the vocabulary_size."""
    old, new = files_of(tmp_path, "abcd", "dcba")
    assert vocabulary.match_vocabularies(old, new, 2).tolist() == [-1, -1, 1, 0]


def test_rows_behind_the_words_are_buckets(tmp_path):
    """Rows of unknown words go behind the new file's words."""
    old, new = files_of(tmp_path, "ab", "xba")
    assert vocabulary.match_vocabularies(old, new, 4).tolist() == [-1, 1, 0, 2, 3]
