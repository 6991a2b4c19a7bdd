// SPDX-License-Identifier: Apache-2.0
//
// Touches the memory that a training step must touch, and does nothing else: a lookup reads a row
// for each id, an update reads and writes a row and a slot variable's row for each distinct id.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kAhead = 32;    // rows, as in the ops
constexpr int64_t kPerLine = 16;  // floats in a cache line

inline void Prefetch(const float* row, int64_t width) {
  for (int64_t place = 0; place < width; place += kPerLine) {
    __builtin_prefetch(row + place, 0, 2);
  }
}

template <typename Work>
void ForEachTable(int num_tables, int num_threads, const Work& work) {
  std::atomic<int> next{0};
  const auto run = [&] {
    for (int table = next++; table < num_tables; table = next++) work(table);
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < num_threads; ++thread) others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
}

}  // namespace

// Reads one float of each cache line of the rows of all ids; returns their sum, so that the
// compiler keeps the reads.
extern "C" float TouchReads(int num_tables, int num_threads, const float* const* tables,
                            const int64_t* const* ids, const int64_t* counts, int64_t width) {
  std::vector<float> sums(num_tables * kPerLine);
  ForEachTable(num_tables, num_threads, [&](int table) {
    float sum = 0;
    for (int64_t place = 0; place < counts[table]; ++place) {
      if (place + kAhead < counts[table]) {
        Prefetch(tables[table] + ids[table][place + kAhead] * width, width);
      }
      const float* row = tables[table] + ids[table][place] * width;
      for (int64_t column = 0; column < width; column += kPerLine) sum += row[column];
    }
    sums[table * kPerLine] = sum;
  });
  float total = 0;
  for (float sum : sums) total += sum;
  return total;
}

// Writes one float of each cache line of the rows, and of their slots, of distinct ids.
extern "C" void TouchWrites(int num_tables, int num_threads, float* const* tables,
                            float* const* slots, const int64_t* const* ids, const int64_t* counts,
                            int64_t width) {
  ForEachTable(num_tables, num_threads, [&](int table) {
    for (int64_t place = 0; place < counts[table]; ++place) {
      if (place + kAhead < counts[table]) {
        const int64_t next = ids[table][place + kAhead] * width;
        Prefetch(tables[table] + next, width);
        Prefetch(slots[table] + next, width);
      }
      const int64_t begin = ids[table][place] * width;
      for (int64_t column = 0; column < width; column += kPerLine) {
        tables[table][begin + column] += 1.0f;
        slots[table][begin + column] += 1.0f;
      }
    }
  });
}
