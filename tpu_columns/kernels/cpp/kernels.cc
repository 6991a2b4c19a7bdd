// SPDX-License-Identifier: Apache-2.0
//
// CPU kernels that look up and update rows of embedding tables in one pass each.
//
// building.py compiles this file against a TensorFlow. It is one translation unit, because reading
// TensorFlow's headers takes most of the time.

#include "huge_pages.h"
#include "look_up_tables.h"
#include "row_gradients.h"
#include "update_table.h"
#include "update_tables.h"
