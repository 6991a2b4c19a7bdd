// SPDX-License-Identifier: Apache-2.0
//
// The ids of one step, as rows of tables. Needs no TensorFlow.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rows.h"

namespace tpu_columns {
namespace {

// A feature's ids of one step, as rows of its variable; those that are padding are left out.
struct Entries {
  int64_t count = 0;
  std::vector<int64_t> rows;
  std::vector<int32_t> sums;        // place of each entry's sum
  const float* weights = nullptr;   // of each entry; null: all are 1
  std::vector<float> kept_weights;  // memory of `weights`, if some entries are left out by weight
  bool has_empty_sum = false;       // of a safe lookup: then row 0 of the table is trained, too
  std::vector<float> divisors;      // of each sum; empty: all are 1
  int64_t num_sums = 0;

  float weight(int64_t place) const { return weights ? weights[place] : 1.0f; }
};

// Rows of one table, or of the part of it that some features read, in one step.
struct TableRows {
  TableRows(int64_t begin, int64_t end) : begin(begin), end(end) {}

  std::vector<int> features;  // which read it
  int64_t begin, end;         // rows of the table in its variable
  std::vector<int64_t> distinct;
  std::vector<int32_t> index;  // of the entries of all features, and of row 0: place in `distinct`

  // Sets `distinct` and `index`.
  void Find(const std::vector<Entries>& entries) {
    std::vector<int64_t> rows;  // of all entries
    bool has_empty_sum = false;
    for (const int feature : features) {
      const Entries& each = entries[feature];
      rows.insert(rows.end(), each.rows.begin(), each.rows.begin() + each.count);
      has_empty_sum |= each.has_empty_sum;
    }
    if (has_empty_sum) rows.push_back(begin);
    const int64_t count = rows.size();
    index.resize(count);
    if (end - begin <= 4 * count) {
      FindDistinctInRange(rows.data(), count, begin, end, index.data(), &distinct);
    } else {
      FindDistinct(rows.data(), count, index.data(), &distinct);
    }
  }
};

}  // namespace
}  // namespace tpu_columns
