// SPDX-License-Identifier: Apache-2.0
//
// CPU kernels that look up and update rows of embedding tables in one pass each.
//
// building.py compiles this file against a TensorFlow. It is one translation unit, because reading
// TensorFlow's headers takes most of the time.
//
//   lookup_op.h         TpuColumnsLookUpTables; lookup_features.h has its inputs
//   row_gradients_op.h  TpuColumnsRowGradients
//   lookup_update_op.h  TpuColumnsUpdateTables
//   slices_update_op.h  TpuColumnsUpdate, TpuColumnsResourceUpdate
//   huge_pages_op.h     TpuColumnsUseHugePages
//
//   step_rows.h         what the first op has read, for the next two
//   optimizer.h         what both updates are given of an optimizer
//   op_helpers.h        checks, and locks of variables
//   shared_work.h, ordering.h: threads
//   rows.h, entries.h, row_gradients.h, update_rules.h: the arithmetic, which needs no TensorFlow

// Ops register themselves.
// IWYU pragma: begin_keep
#include "huge_pages_op.h"
#include "lookup_op.h"
#include "lookup_update_op.h"
#include "row_gradients_op.h"
#include "slices_update_op.h"
// IWYU pragma: end_keep
