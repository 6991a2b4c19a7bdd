// SPDX-License-Identifier: Apache-2.0
//
// Rows of tables: sums, and distinct ids. Needs no TensorFlow.
//
// Loops over the elements of a row use +, -, *, / and sqrt only (Ftrl with a power other than -0.5
// and AdagradMomentum also pow), which are rounded alike in vectors and scalars, so a row's result
// doesn't depend on its width or place.

#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace tpu_columns {
namespace {

// Rows are requested from memory this many rows ahead of their use, into the second-level cache,
// which can wait for more of them than the first.
constexpr int64_t kAhead = 32;

inline void Prefetch(const float* row, int64_t width) {
  for (int64_t place = 0; place < width; place += 16) __builtin_prefetch(row + place, 0, 2);
  // Rows of other widths don't begin where a cache line does.
  if (width % 16) __builtin_prefetch(row + width - 1, 0, 2);
}

// Calls `work` with the width of rows: as a constant if it is a common one, for which the compiler
// makes faster loops over a row.
template <typename Work>
void WithWidth(int64_t width, const Work& work) {
  switch (width) {
    case 4: return work(std::integral_constant<int64_t, 4>());
    case 8: return work(std::integral_constant<int64_t, 8>());
    case 12: return work(std::integral_constant<int64_t, 12>());
    case 16: return work(std::integral_constant<int64_t, 16>());
    case 24: return work(std::integral_constant<int64_t, 24>());
    case 32: return work(std::integral_constant<int64_t, 32>());
    case 64: return work(std::integral_constant<int64_t, 64>());
    default: return work(width);
  }
}

inline void AddScaled(float* __restrict sum, const float* __restrict row, float factor,
                      int64_t width) {
  if (factor == 1.0f) {
    for (int64_t place = 0; place < width; ++place) sum[place] += row[place];
  } else {
    for (int64_t place = 0; place < width; ++place) sum[place] += factor * row[place];
  }
}

// Sets a row to what `AddScaled` makes of zeros.
inline void SetScaled(float* __restrict sum, const float* __restrict row, float factor,
                      int64_t width) {
  for (int64_t place = 0; place < width; ++place) sum[place] = 0.0f + factor * row[place];
}

// Sets a row to the quotient of another one; to zeros if the divisor is zero.
inline void Divide(float* quotient, const float* row, float divisor, int64_t width) {
  if (divisor == 0.0f) {
    std::fill_n(quotient, width, 0.0f);
  } else {
    for (int64_t place = 0; place < width; ++place) quotient[place] = row[place] / divisor;
  }
}

// Appends the rows of a matrix.
inline void AppendRows(const float* matrix, int64_t num_rows, int64_t width,
                       std::vector<const float*>* rows) {
  for (int64_t row = 0; row < num_rows; ++row) rows->push_back(matrix + row * width);
}

// Ids of a step are fewer: their places are 32-bit numbers.
constexpr int64_t kMaxIds = 1 << 29;

// Finds the distinct ones of fewer than `kMaxIds` ids, in the order of their first occurrence, and
// the place of each id among them. Without branches that depend on whether an id is new, which
// processors guess wrong.
template <typename Id, typename Index>
void FindDistinct(const Id* ids, int64_t count, Index* index, std::vector<Id>* distinct) {
  int bits = 4;
  while ((int64_t{1} << bits) < 4 * count) ++bits;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  std::vector<int32_t> table(mask + 1, -1);  // by hash: the place of an id in `distinct`
  distinct->resize(count);
  Id* found = distinct->data();
  int32_t size = 0;
  for (int64_t place = 0; place < count; ++place) {
    const Id id = ids[place];
    // The golden ratio spreads consecutive ids.
    uint64_t slot = (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15ull) >> (64 - bits);
    int32_t known = table[slot];
    while ((known >= 0) & (found[std::max(known, 0)] != id)) {
      slot = (slot + 1) & mask;
      known = table[slot];
    }
    found[size] = id;
    const bool is_new = known < 0;
    table[slot] = known = is_new ? size : known;
    size += is_new;
    index[place] = known;
  }
  distinct->resize(size);
}

// The same for ids from `begin` to below `end`, without a hash: faster where the range is small.
template <typename Id, typename Index>
void FindDistinctInRange(const Id* ids, int64_t count, Id begin, Id end, Index* index,
                         std::vector<Id>* distinct) {
  std::vector<int32_t> table(end - begin, -1);  // by id: its place in `distinct`
  distinct->resize(count);
  Id* found = distinct->data();
  int32_t size = 0;
  for (int64_t place = 0; place < count; ++place) {
    const Id id = ids[place];
    int32_t& known = table[id - begin];
    found[size] = id;
    const bool is_new = known < 0;
    known = is_new ? size : known;
    size += is_new;
    index[place] = known;
  }
  distinct->resize(size);
}

}  // namespace
}  // namespace tpu_columns
