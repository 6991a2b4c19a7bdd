// SPDX-License-Identifier: Apache-2.0

#include "rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "check.h"

namespace tpu_columns {
namespace {

// Checks what both functions find against a search of all ids before.
template <typename Id>
void CheckDistinct(const std::vector<Id>& ids, Id begin, Id end) {
  const int64_t count = static_cast<int64_t>(ids.size());
  std::vector<Id> expected;
  std::vector<int32_t> places;
  for (const Id id : ids) {
    const auto found = std::find(expected.begin(), expected.end(), id);
    places.push_back(static_cast<int32_t>(found - expected.begin()));
    if (found == expected.end()) expected.push_back(id);
  }
  std::vector<Id> distinct;
  std::vector<int32_t> index(ids.size());
  FindDistinct(ids.data(), count, index.data(), &distinct);
  CHECK(distinct == expected && index == places);
  if (end - begin > 1 << 20) return;
  index.assign(ids.size(), -1);
  FindDistinctInRange(ids.data(), count, begin, end, index.data(), &distinct);
  CHECK(distinct == expected && index == places);
}

template <typename Id>
void TestDistinct() {
  CheckDistinct<Id>({}, 0, 1);
  CheckDistinct<Id>({5}, 5, 6);
  CheckDistinct<Id>({7, 7, 7}, 0, 8);
  CheckDistinct<Id>({3, 1, 3, 2, 1, 0}, 0, 4);
  std::mt19937 random(1);
  for (const Id end : {1, 2, 17, 1000, std::numeric_limits<int32_t>::max()}) {
    for (const size_t count : {1, 2, 100, 1000}) {
      std::vector<Id> ids(count);
      std::uniform_int_distribution<Id> draw(end / 2, end - 1);
      for (Id& id : ids) id = draw(random);
      CheckDistinct<Id>(ids, end / 2, end);
    }
  }
}

void TestSums() {
  const std::vector<float> row{1, 2, 3};
  std::vector<float> sum{10, 20, 30, 40};
  AddScaled(sum.data(), row.data(), 1.0f, 3);
  CHECK(sum == std::vector<float>{11, 22, 33, 40});
  AddScaled(sum.data(), row.data(), 0.5f, 3);
  CHECK(sum == std::vector<float>{11.5, 23, 34.5, 40});
  SetScaled(sum.data(), row.data(), -2.0f, 3);
  CHECK(sum == std::vector<float>{-2, -4, -6, 40});
  Divide(sum.data(), sum.data(), -2.0f, 3);
  CHECK(sum == std::vector<float>{1, 2, 3, 40});
  Divide(sum.data(), row.data(), 0.0f, 3);
  CHECK(sum == std::vector<float>{0, 0, 0, 40});
  // A sum of zeros has the sign that adding gives.
  const float negative_zero = -0.0f;
  SetScaled(sum.data(), &negative_zero, 1.0f, 1);
  CHECK(!std::signbit(sum[0]));
}

void TestWidths() {
  int num_constants = 0;
  for (int64_t width = 0; width < 70; ++width) {
    int num_calls = 0;
    WithWidth(width, [&](auto found) {
      ++num_calls;
      num_constants += !std::is_same_v<decltype(found), int64_t>;
      CHECK(found == width);
    });
    CHECK(num_calls == 1);
  }
  CHECK(num_constants == 7);
}

void TestAppendRows() {
  const std::vector<float> matrix{1, 2, 3, 4, 5, 6};
  std::vector<const float*> rows;
  AppendRows(matrix.data(), 2, 3, &rows);
  AppendRows(matrix.data(), 1, 3, &rows);
  CHECK(rows == std::vector<const float*>{matrix.data(), matrix.data() + 3, matrix.data()});
}

}  // namespace
}  // namespace tpu_columns

int main() {
  tpu_columns::TestDistinct<int32_t>();
  tpu_columns::TestDistinct<int64_t>();
  tpu_columns::TestSums();
  tpu_columns::TestWidths();
  tpu_columns::TestAppendRows();
  return num_failures > 0;
}
