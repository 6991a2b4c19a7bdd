// SPDX-License-Identifier: Apache-2.0
//
// Sums of gradients by row. Needs no TensorFlow.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "entries.h"
#include "rows.h"

namespace tpu_columns {
namespace {

// Gradients of a feature's sums: columns of a matrix.
struct Gradient {
  const float* first = nullptr;
  int64_t stride = 0;  // number of columns of the matrix
};

// Adds the gradients of one feature.
inline void AddGradients(const Entries& entries, const Gradient& gradient, int64_t width,
                         const int32_t* index, float* sums) {
  std::vector<float> divided(width);
  const bool divides = !entries.divisors.empty();
  int64_t last_sum = -1;
  for (int64_t place = 0; place < entries.count; ++place) {
    const int64_t sum = entries.sums[place];
    const float* row = gradient.first + sum * gradient.stride;
    if (sum != last_sum) {  // entries of one sum follow each other
      last_sum = sum;
      if (sum + kAhead < entries.num_sums) Prefetch(row + kAhead * gradient.stride, width);
      if (divides) Divide(divided.data(), row, entries.divisors[sum], width);
    }
    AddScaled(sums + index[place] * width, divides ? divided.data() : row, entries.weight(place),
              width);
  }
}

// Sets the sums of the gradients of a table's distinct rows, [number of rows, `width`].
//
// gradients: of each of the table's features.
inline void SumGradients(const TableRows& rows, const std::vector<Entries>& entries,
                         const std::vector<Gradient>& gradients, int64_t width, float* sums) {
  std::fill_n(sums, rows.distinct.size() * width, 0.0f);
  const int32_t* index = rows.index.data();
  for (size_t place = 0; place < gradients.size(); ++place) {
    const Entries& each = entries[rows.features[place]];
    AddGradients(each, gradients[place], width, index, sums);
    index += each.count;
  }
}

// Replaces rows by the distinct ones, and their gradients by sums, whose memory is `sums`.
inline void SumByRow(int64_t width, std::vector<int64_t>* rows,
                     std::vector<const float*>* gradients, std::vector<float>* sums) {
  const int64_t count = rows->size();
  std::vector<int64_t> distinct;
  std::vector<int32_t> index(count);
  FindDistinct(rows->data(), count, index.data(), &distinct);
  sums->assign(distinct.size() * width, 0.0f);
  for (int64_t place = 0; place < count; ++place) {
    AddScaled(sums->data() + index[place] * width, (*gradients)[place], 1.0f, width);
  }
  gradients->clear();
  AppendRows(sums->data(), distinct.size(), width, gradients);
  *rows = std::move(distinct);
}

}  // namespace
}  // namespace tpu_columns
