# SPDX-License-Identifier: Apache-2.0
"""Rows of an old vocabulary in a new one."""

from __future__ import annotations

import pytest

from estimator_spec.checkpoints import vocabulary


def files_of(tmp_path, *texts):
    """Vocabulary files, a letter a line."""
    paths = [tmp_path / f"{number}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text("\n".join(text) + "\n")
    return map(str, paths)


def test_words_without_a_row_are_refused(tmp_path):
    """An old file with more words than the table has rows is refused, as is one without words."""
    old, new, none = files_of(tmp_path, "abcd", "dcba", "")
    with pytest.raises(ValueError, match=r"0.txt' has 4 words, its table only 2 rows.*head -n 2"):
        vocabulary.match_vocabularies(old, new, 2)
    assert vocabulary.match_vocabularies(old, new, 4)[0].tolist() == [3, 2, 1, 0]
    open(none, "w").close()
    for pair in ((none, new), (new, none)):
        with pytest.raises(ValueError, match="2.txt' has no words"):
            vocabulary.match_vocabularies(*pair, 4)


def test_rows_behind_the_words_are_buckets(tmp_path):
    """Rows of unknown words go behind the new file's words."""
    old, new = files_of(tmp_path, "ab", "xba")
    rows, buckets = vocabulary.match_vocabularies(old, new, 4)
    assert (rows.tolist(), buckets) == ([-1, 1, 0, 2, 3], 2)
