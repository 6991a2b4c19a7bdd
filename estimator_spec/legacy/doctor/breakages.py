# SPDX-License-Identifier: Apache-2.0
"""Rules: combinations of versions that are known to break, and requirements that aren't met."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from estimator_spec.legacy.doctor.installation import OWN, SHOWN, Installation

_KERAS_VARIABLE = "TF_USE_LEGACY_KERAS"
# The extra of a distribution that is only installed for it.
_EXTRAS = {"keras-rs": "keras-rs", "tfrs": "tensorflow-recommenders", "contrib": "tf-slim"}


class Level(enum.Enum):
    """Weight of a finding: a problem breaks programs, a note only some uses."""

    PROBLEM = "problem"
    NOTE = "note"


@dataclasses.dataclass(frozen=True)
class Misfit:
    """Something that doesn't fit.

    Attributes:
        level: its weight.
        package: the distribution or environment variable that it is about.
        text: what breaks, and why.
        cure: what to do: a command, or a sentence.
    """

    level: Level
    package: str
    text: str
    cure: str


def diagnose(installation: Installation, names: Collection[str] = ()) -> list[Misfit]:
    """Returns what doesn't fit: known breakages, then requirements that aren't met.

    Args:
        installation: what is installed.
        names: the names of TensorFlow that a program uses; some breakages are of these.

    >>> found = diagnose(Installation("3.11.4", {"tensorflow": "2.21.0", "tf-keras": "2.20.1"}))
    >>> found[0].cure
    'pip install "tf_keras==2.21.*"'
    """
    rules = (_wrong_tensorflow, _wrong_keras, _wrong_others)
    findings = [finding for rule in rules for finding in rule(installation)]
    findings += _wrong_for_names(installation, names)
    known = {finding.package for finding in findings if finding.level is Level.PROBLEM}
    for finding in _unmet_requirements(installation):
        if finding.package not in known:
            known.add(finding.package)
            findings.append(finding)
    return sorted(findings, key=lambda finding: finding.level is not Level.PROBLEM)


def _wrong_tensorflow(found: Installation) -> Iterator[Misfit]:
    """Yields what is wrong if not exactly one distribution provides TensorFlow."""
    if "tensorflow" not in found.versions:
        python = Version(found.python)
        cure = "pip install tensorflow tf_keras"
        if (python.major, python.minor) >= (3, 14):
            cure = (
                "No released TensorFlow has wheels for it: take Python 3.10 to 3.13, or see "
                'docs/status.md, "On a nightly build".'
            )
        text = f"TensorFlow isn't installed for Python {found.python}."
        yield Misfit(Level.PROBLEM, "tensorflow", text, cure)
    if len(found.tensorflows) > 1:
        names = " and ".join(found.tensorflows)
        text = f"{names} provide the same module, and overwrite each other's files."
        cure = f"pip uninstall {' '.join(found.tensorflows)}, then install one of them"
        yield Misfit(Level.PROBLEM, "tensorflow", text, cure)


def _wrong_keras(found: Installation) -> Iterator[Misfit]:
    """Yields what gives `tf.keras` another Keras than the one that TensorFlow's graphs need."""
    tensorflow, keras = found.release("tensorflow"), found.release("tf-keras")
    if tensorflow is not None and tensorflow >= (2, 16) and keras != tensorflow:
        release = f"{tensorflow[0]}.{tensorflow[1]}"
        if keras is None:
            text = (
                "tf_keras isn't installed: from TensorFlow 2.16 on tf.keras is Keras 3, which "
                "can't build the graphs of a model_fn (tf.keras layers, tf.compat.v1.layers, "
                "DenseFeatures)."
            )
        else:
            text = (
                f"tf_keras {found.versions['tf-keras']} isn't made for TensorFlow "
                f"{found.versions['tensorflow']}: their minor versions must be equal."
            )
        yield Misfit(Level.PROBLEM, "tf-keras", text, f'pip install "tf_keras=={release}.*"')
    name = _KERAS_VARIABLE
    value = found.variables.get(name)
    if value is None:
        return
    if found.has("tensorflow", (2, 16)) and not _selects_legacy_keras(found):
        text = f"{name}={value} makes tf.keras Keras 3, which can't build the graphs of a model_fn."
        yield Misfit(Level.PROBLEM, name, text, f"unset {name}, or set it to 1")
    if found.has("tensorflow", (2, 15), (2, 16)) and _selects_legacy_keras(found):
        text = f"{name}={value}: TensorFlow 2.15 already has Keras 2, and needs no tf_keras."
        yield Misfit(Level.NOTE, name, text, f"unset {name}")


def _selects_legacy_keras(found: Installation) -> bool:
    return found.variables.get(_KERAS_VARIABLE, "").lower() in ("1", "true")


def _wrong_others(found: Installation) -> Iterator[Misfit]:
    """Yields other packages that don't fit the installed TensorFlow."""
    tensorflow, protobuf = (found.versions.get(name) for name in ("tensorflow", "protobuf"))
    if found.has("tensorflow", (2, 20), (2, 21)) and found.has("protobuf", (7, 0)):
        text = (
            f"TensorFlow {tensorflow} can't write a graph with protobuf {protobuf}: its "
            "write_graph passes float_format, which 7 dropped."
        )
        yield Misfit(Level.PROBLEM, "protobuf", text, 'pip install "protobuf<7"')
    if found.has("tensorflow", (2, 21)) and "tensorboard" not in found.versions:
        text = "tf.summary.scalar needs TensorBoard, which TensorFlow 2.21 no longer installs."
        yield Misfit(Level.PROBLEM, "tensorboard", text, "pip install tensorboard")
    if found.has("tensorflow", (2, 16)) and "tensorflow-estimator" in found.versions:
        text = (
            f"tensorflow_estimator {found.versions['tensorflow-estimator']} fails at import with "
            f"TensorFlow {tensorflow}."
        )
        cure = (
            "pip uninstall tensorflow-estimator; `python -m estimator_spec run` and install() put "
            "its names back"
        )
        yield Misfit(Level.NOTE, "tensorflow-estimator", text, cure)
    has_recommenders = "tensorflow-recommenders" in found.versions
    if has_recommenders and found.has("tensorflow", (2, 16)) and not _selects_legacy_keras(found):
        text = "PartialTPUEmbedding of tensorflow-recommenders can't be imported with Keras 3."
        cure = f"set {_KERAS_VARIABLE}=1 before its program starts"
        yield Misfit(Level.NOTE, "tensorflow-recommenders", text, cure)


def _wrong_for_names(found: Installation, names: Collection[str]) -> Iterator[Misfit]:
    """Yields what breaks names that a program uses."""
    module = "tensorflow.tpu.experimental.embedding."
    is_affected = found.has("tensorflow", (2, 21), (2, 22)) and found.has("protobuf", (7, 34))
    if is_affected and any(name.startswith(module) for name in names):
        text = (
            f"With protobuf {found.versions['protobuf']} the optimizers of "
            "tf.tpu.experimental.embedding fail (low_dimensional_packing_status: Expected an int, "
            "got a boolean). Those that estimator_spec.convert returns don't."
        )
        cure = 'pip install "protobuf<7.34", if the program makes such optimizers'
        yield Misfit(Level.NOTE, "protobuf", text, cure)


def _unmet_requirements(found: Installation) -> Iterator[Misfit]:
    """Yields requirements of the shown distributions, on each other, that aren't met."""
    for owner, requirements in found.requirements.items():
        extras = [""]
        if owner == OWN:
            extras += [extra for extra, name in _EXTRAS.items() if name in found.versions]
        for text in requirements:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:  # of an age with another syntax
                continue
            name = str(canonicalize_name(requirement.name))
            marker = requirement.marker
            applies = marker is None or any(marker.evaluate({"extra": e}) for e in extras)
            if not applies or (owner != OWN and name not in SHOWN):
                continue
            version = found.versions.get(name)
            if version is not None and requirement.specifier.contains(version, prereleases=True):
                continue
            wanted = f"{requirement.name}{requirement.specifier}"
            there = "none" if version is None else version
            yield Misfit(
                Level.PROBLEM,
                name,
                f"{owner} {found.versions[owner]} needs {wanted}; {there} is installed.",
                f'pip install "{wanted}"',
            )
