# SPDX-License-Identifier: Apache-2.0
"""Finds versions that don't fit together, known breakages, and names that a script can't have.

`python -m estimator_spec doctor` is the command line. Versions are read from the installed
distributions' metadata: nothing is imported, so the command also works where TensorFlow is missing
or fails to start. Only the names of a script need it.
"""
