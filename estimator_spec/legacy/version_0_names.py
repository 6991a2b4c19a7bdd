# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: those of TensorFlow 0.x, which 1.0 renamed.

They are the renamings of `tf_upgrade.py`, which TensorFlow 1.0 came with; those that it said to
edit by hand are in `unsupported_names`.
"""

from __future__ import annotations

from estimator_spec.legacy.name_rows import parse_rows

VERSION_0 = parse_rows(
    """
    [tensorflow]
    tf: complex_abs=abs mul=multiply neg=negative pack=stack sub=subtract unpack=unstack

    [tensorflow.compat.v1]
    tf:
      inv=reciprocal list_diff=setdiff1d listdiff=setdiff1d select=where
      batch_cholesky=cholesky batch_cholesky_solve=cholesky_solve batch_fft=fft batch_fft2d=fft2d
      batch_fft3d=fft3d batch_ifft=ifft batch_ifft2d=ifft2d batch_ifft3d=ifft3d
      batch_matrix_band_part=matrix_band_part batch_matrix_determinant=matrix_determinant
      batch_matrix_diag=matrix_diag batch_matrix_diag_part=matrix_diag_part
      batch_matrix_inverse=matrix_inverse batch_matrix_set_diag=matrix_set_diag
      batch_matrix_solve=matrix_solve batch_matrix_solve_ls=matrix_solve_ls
      batch_matrix_transpose=matrix_transpose
      batch_matrix_triangular_solve=matrix_triangular_solve

    [tensorflow.compat.v1.nn]
    tf.nn:
      bidirectional_rnn=static_bidirectional_rnn rnn=static_rnn
      state_saving_rnn=static_state_saving_rnn

    [tensorflow.image]
    tf.image: per_image_whitening=per_image_standardization

    [tensorflow.compat.v1.summary]
    tf:
      audio_summary=audio histogram_summary=histogram image_summary=image
      merge_all_summaries=merge_all merge_summary=merge scalar_summary=scalar
    tf.train: SummaryWriter=FileWriter
    contrib.deprecated:
      audio_summary=audio histogram_summary=histogram image_summary=image
      merge_all_summaries=merge_all merge_summary=merge scalar_summary=scalar
    """
)
