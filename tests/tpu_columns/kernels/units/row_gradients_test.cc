// SPDX-License-Identifier: Apache-2.0
//
// All numbers are small integers or halves, whose sums are exact.

#include "row_gradients.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "check.h"
#include "entries.h"
#include "rows.h"

namespace tpu_columns {
namespace {

// Returns entries of which each is a row and a sum.
Entries MakeEntries(const std::vector<int64_t>& rows, const std::vector<int32_t>& sums,
                    int64_t num_sums) {
  Entries entries;
  entries.count = static_cast<int64_t>(rows.size());
  entries.rows = rows;
  entries.sums = sums;
  entries.num_sums = num_sums;
  return entries;
}

std::vector<float> Sum(const TableRows& rows, const std::vector<Entries>& entries,
                       const std::vector<Gradient>& gradients, int64_t width) {
  std::vector<float> sums(rows.distinct.size() * static_cast<size_t>(width), -1.0f);
  SumGradients(rows, entries, gradients, width, sums.data());
  return sums;
}

// Two features read a table that is rows 10 to 19 of its variable, another one isn't trained.
void TestSumsOfFeatures(int64_t end) {
  std::vector<Entries> entries{MakeEntries({12, 10, 12, 15}, {0, 0, 2, 2}, 3), Entries(),
                               MakeEntries({15, 15, 11}, {0, 1, 1}, 2)};
  // Entries that were left out stay behind the others.
  entries[0].rows.push_back(18);
  entries[2].rows.push_back(19);
  const std::vector<float> weights{2, 3, 0.5};
  entries[2].weights = weights.data();
  entries[2].divisors = {2, 4};
  // Of both features' sums: columns 1 and 2 of a matrix, and a matrix of their own.
  const std::vector<float> layer{0, 1, 2, 0, 3, 4, 0, 5, 6}, own{8, 16, 32, 64};
  TableRows rows(10, end);
  rows.features = {0, 2};
  rows.Find(entries);
  CHECK(rows.distinct == std::vector<int64_t>{12, 10, 15, 11});
  CHECK(rows.index == std::vector<int32_t>{0, 1, 0, 2, 2, 2, 3});
  const std::vector<float> sums = Sum(rows, entries, {{layer.data() + 1, 3}, {own.data(), 2}}, 2);
  // Row 15: 5 of the first feature, 8 / 2 with the weight 2, and 32 / 4 with the weight 3.
  CHECK(sums == std::vector<float>{6, 8, 1, 2, 5 + 8 + 24, 6 + 16 + 48, 4, 8});
}

void TestEmptySum() {
  std::vector<Entries> entries{MakeEntries({4}, {1}, 2)};
  entries[0].has_empty_sum = true;
  TableRows rows(3, 6);
  rows.features = {0};
  rows.Find(entries);
  CHECK(rows.distinct == std::vector<int64_t>{4, 3});
  const std::vector<float> gradient{1, 2};
  CHECK(Sum(rows, entries, {{gradient.data(), 1}}, 1) == std::vector<float>{2, 0});
}

void TestNoEntries() {
  TableRows rows(0, 5);
  rows.features = {0};
  rows.Find({Entries()});
  CHECK(rows.distinct.empty() && rows.index.empty());
}

void TestSumByRow() {
  const std::vector<float> matrix{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<int64_t> rows{9, 4, 9, 9};
  std::vector<const float*> gradients;
  std::vector<float> sums;
  AppendRows(matrix.data(), 4, 2, &gradients);
  SumByRow(2, &rows, &gradients, &sums);
  CHECK(rows == std::vector<int64_t>{9, 4});
  CHECK(sums == std::vector<float>{1 + 5 + 7, 2 + 6 + 8, 3, 4});
  CHECK(gradients == std::vector<const float*>{sums.data(), sums.data() + 2});
}

}  // namespace
}  // namespace tpu_columns

int main() {
  tpu_columns::TestSumsOfFeatures(20);         // looks ids up by their place in the range
  tpu_columns::TestSumsOfFeatures(1'000'000);  // by their hash
  tpu_columns::TestEmptySum();
  tpu_columns::TestNoEntries();
  tpu_columns::TestSumByRow();
  return num_failures > 0;
}
