// SPDX-License-Identifier: Apache-2.0
//
// Work of an op that several threads share.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "op_helpers.h"
#include "ordering.h"

namespace tpu_columns {
namespace {

// Fewest ids for which a second thread pays: for tables that fit in a core's cache, and for larger
// ones.
constexpr int64_t kManyCachedIds = 1 << 15;
constexpr int64_t kManyIds = 1 << 13;
constexpr int64_t kCacheBytes = 1 << 20;
// How often a thread yields before it waits for others: some hundred microseconds.
constexpr int kMaxYields = 1000;

// Work of an op on several threads: places 0 to `count` - 1 in parts.
struct SharedWork {
  SharedWork(int64_t count, int64_t num_parts) : count(count), next(num_parts) {
    for (int64_t part = 0; part < num_parts; ++part) next[part] = begin(part);
  }

  int64_t begin(int64_t part) const { return count * part / static_cast<int64_t>(next.size()); }

  // Works on the places that no other thread has begun, first on those of one part.
  template <typename Work>
  void WorkOn(int64_t first_part, const Work& work) {
    const int64_t num_parts = next.size();
    for (int64_t turn = 0; turn < num_parts; ++turn) {
      const int64_t part = (first_part + turn) % num_parts;
      const int64_t end = begin(part + 1);
      for (int64_t place = next[part]++; place < end; place = next[part]++) {
        work(place);
        if (++num_done == count) all_done.Set();
      }
    }
  }

  // Waits until all is done. Threads of the pool keep their cores busy while they look for more to
  // do, so it would take long to wake a thread that sleeps.
  void Wait() {
    for (int turn = 0; turn < kMaxYields && num_done.load() < count; ++turn) {
      std::this_thread::yield();
    }
    all_done.Wait();
  }

  const int64_t count;
  std::vector<std::atomic<int64_t>> next;  // place to work on next in each part
  std::atomic<int64_t> num_done{0};
  Event all_done;
};

// Returns whether several threads pay for a number of ids of tables.
//
// tables: pointers to tensors.
template <typename Tables>
bool AreMany(int64_t num_ids, const Tables& tables) {
  int64_t num_bytes = 0;
  for (const Tensor* each : tables) num_bytes += each->TotalBytes();
  return num_ids >= (num_bytes > kCacheBytes ? kManyIds : kManyCachedIds);
}

// Calls `work` for 0 to `count` - 1, in parallel if `is_parallel`; returns the first failure.
//
// Each thread begins with a part of its own, the same in every op and step: rows that it has read
// or written before may still be in its core's cache. Then it helps with the parts of the others.
// The op's own thread works, too.
template <typename Work>
absl::Status ForEach(OpKernelContext* context, int64_t count, bool is_parallel, const Work& work) {
  std::vector<absl::Status> statuses(count);
  const auto* workers = context->device()->tensorflow_cpu_worker_threads();
  const int64_t num_parts = is_parallel ? std::min<int64_t>(workers->num_threads, count) : 1;
  if (num_parts <= 1) {
    for (int64_t place = 0; place < count; ++place) statuses[place] = work(place);
  } else {
    tensorflow::thread::ThreadPool* pool = workers->workers;
    const auto shared = std::make_shared<SharedWork>(count, num_parts);
    const auto set_status = [&statuses, &work](int64_t place) { statuses[place] = work(place); };
    for (int64_t part = 1; part < num_parts; ++part) {
      // This may begin when all is done and `work` is gone: then it finds no place to work on.
      Schedule(pool, [shared, pool, num_parts, set_status] {
        shared->WorkOn(1 + std::max(pool->CurrentThreadId(), 0) % (num_parts - 1), set_status);
      });
    }
    shared->WorkOn(0, set_status);
    shared->Wait();
  }
  for (const absl::Status& status : statuses) TF_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace
}  // namespace tpu_columns
