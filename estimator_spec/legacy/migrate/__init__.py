# SPDX-License-Identifier: Apache-2.0
"""Rewrites the source of programs that use names which TensorFlow removed.

    python -m estimator_spec migrate PATH…

`cli` reads the command line, `runner` goes through the files, `files` and `notebooks` read and
write them. `syntax` makes a `program.Program` of plain values of what `program_source` knows
of a source: what its imports bind, and where these are used; `unfollowed` finds where they become
values that aren't followed. `old_names` says what became of a name, `rewriting` edits the program,
and `rules.RULES` is the table of the rules. `results` has the values that a run returns.

Neither TensorFlow nor the driver is imported.
"""
