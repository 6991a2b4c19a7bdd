# SPDX-License-Identifier: Apache-2.0
"""Builds specs from plain data, with our classes or TensorFlow 2.15.1's.

    python proto_family.py

serves TensorFlow 2.15.1's protos: one JSON description a line in, one line of hex (or
`error: …`) out. It imports nothing of this project.
"""

from __future__ import annotations

import json
import sys


def decayed(step):
    """Learning rate function."""
    return 1.0 / (1.0 + step)


def halved(step):
    """Second learning rate function."""
    return 0.5 * decayed(step)


RATES = {"decayed": decayed, "halved": halved}


class Ours:
    """Returns this project's side."""

    def __init__(self):
        """Imports the side."""
        import estimator_spec
        import tpu_columns

        self.columns = tpu_columns
        self.configs = self.optimizers = self.specs = estimator_spec

    def proto(self, description):
        """Returns the proto."""
        from estimator_spec.convert import to_config_proto

        run = description["run"]
        return to_config_proto(
            make_spec(self, description),
            run["batch_size"],
            run["mode"],
            run["num_hosts"],
            run["num_cores"],
        )


class Reference:
    """Returns TensorFlow 2.15.1's side."""

    def __init__(self):
        """Imports the side."""
        import tensorflow as tf
        from tensorflow.python.tpu import tpu_embedding
        from tensorflow_estimator.python.estimator.tpu import _tpu_estimator_embedding

        self.columns = tf.compat.v1.tpu.experimental
        self.configs = self.optimizers = tpu_embedding
        self.specs = _tpu_estimator_embedding

    def proto(self, description):
        """Returns the proto."""
        spec, run = make_spec(self, description), description["run"]
        tables, features = spec.table_to_config_dict, spec.feature_to_config_dict
        if spec.feature_columns:
            tables, features = self.specs.get_configs_from_feature_columns(spec.feature_columns)
        training = run["mode"] == "train"
        return self.configs.TPUEmbedding(
            tables,
            features,
            run["batch_size"],
            self.configs.TRAINING if training else self.configs.INFERENCE,
            optimization_parameters=spec.optimization_parameters if training else None,
            pipeline_execution_with_tensor_core=spec.pipeline_execution_with_tensor_core,
            partition_strategy=spec.partition_strategy,
            profile_data_directory=spec.profile_data_directory,
            device_config=self.configs.DeviceConfig(
                num_hosts=run["num_hosts"], num_cores=run["num_cores"], job_name="worker"
            ),
        ).config_proto


def make_spec(side, description):
    """Builds the described spec from one side's classes."""
    arguments = dict(description["spec"])
    optimizer = arguments.pop("optimizer")
    arguments["optimization_parameters"] = make_optimizer(side, optimizer)
    if "columns" in description:
        arguments["feature_columns"] = make_columns(side, description["columns"])
    else:
        arguments["table_to_config_dict"] = {
            name: make_table(side, table) for name, table in description["tables"].items()
        }
        arguments["feature_to_config_dict"] = {
            name: side.configs.FeatureConfig(**feature)
            for name, feature in description["features"].items()
        }
    return side.specs.EmbeddingConfigSpec(**arguments)


def make_optimizer(side, optimizer):
    """Builds parameters from [class name, arguments], or None."""
    if optimizer is None:
        return None
    return getattr(side.optimizers, optimizer[0])(**optimizer[1])


def make_table(side, table):
    """Builds a `TableConfig`."""
    table = dict(table)
    optimizer = make_optimizer(side, table.pop("optimizer"))
    rate = RATES.get(table.pop("rate"))
    return side.configs.TableConfig(
        **table, learning_rate_fn=rate, optimization_parameters=optimizer
    )


def make_columns(side, groups):
    """Builds the described columns: groups that share a table, and single columns."""
    columns = []
    for group in groups:
        categorical = [make_categorical(member) for member in group["members"]]
        lengths = [member["max_sequence_length"] for member in group["members"]]
        options = {
            "dimension": group["dimension"],
            "combiner": group["combiner"],
            "learning_rate_fn": RATES.get(group["rate"]),
            "embedding_lookup_device": group["device"],
            "tensor_core_shape": group["tensor_core_shape"],
        }
        if len(categorical) > 1:
            columns += side.columns.shared_embedding_columns(
                categorical, max_sequence_lengths=lengths, **options
            )
        else:
            columns.append(
                side.columns.embedding_column(
                    categorical[0], max_sequence_length=lengths[0], **options
                )
            )
    return columns


def make_categorical(member):
    """Builds the categorical column of one feature."""
    import tensorflow as tf

    make, key, rows = tf.feature_column, member["key"], member["rows"]
    sequence = "sequence_" if member["max_sequence_length"] else ""
    if member["kind"] == "list":
        words = [str(number) for number in range(rows - 1)]
        column = getattr(make, sequence + "categorical_column_with_vocabulary_list")(
            key, words, num_oov_buckets=1
        )
    else:
        column = getattr(make, sequence + "categorical_column_with_identity")(key, rows)
    if member["weight"]:
        column = make.weighted_categorical_column(column, member["weight"])
    return column


def main():
    """Returns the reference's protos in a loop."""
    side = Reference()
    for line in sys.stdin:
        try:
            answer = side.proto(json.loads(line)).SerializeToString().hex()
        except Exception as error:
            answer = f"error: {type(error).__name__}: {error}".replace("\n", " ")
        print(answer, flush=True)


if __name__ == "__main__":
    main()
