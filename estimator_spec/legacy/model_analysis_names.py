# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: the exports of TensorFlow Model Analysis."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import When, parse_rows

MODEL_ANALYSIS = parse_rows(
    """
    [estimator_spec.legacy.model_analysis]
    tfma.export tfma.eval_saved_model.export tfma.export_only.export:
      EvalInputReceiver build_parsing_eval_input_receiver_fn export_eval_saved_model
      export_eval_savedmodel=export_eval_saved_model
    tfma.exporter tfma.eval_saved_model.exporter tfma.export_only.exporter:
      FinalExporter=EvalFinalExporter LatestExporter=EvalLatestExporter adapt_to_remove_metrics
    """,
    When.WITH_OURS,
)
