// SPDX-License-Identifier: Apache-2.0
//
// How threads begin work, and wait for each other.

#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "tensorflow/core/lib/core/threadpool.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace tpu_columns {
namespace {

// Something that happens once, until it is reset.
class Event {
 public:
  void Set() {
    std::lock_guard<std::mutex> lock(mutex_);
    has_happened_.store(true);
    changed_.notify_all();
  }

  void Wait() {
    if (has_happened_.load()) return;
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return has_happened_.load(); });
  }

  void Reset() { has_happened_.store(false); }

 private:
  std::atomic<bool> has_happened_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

// TensorFlow isn't compiled for ThreadSanitizer, which doesn't see how it orders ops and the work
// of its threads, and would report races. In a build for it, an op is said to follow all ops that
// ended before, and work has threads of its own.
#if defined(__SANITIZE_THREAD__)
inline char ended_ops;

struct OpScope {
  OpScope() { __tsan_acquire(&ended_ops); }
  ~OpScope() { __tsan_release(&ended_ops); }
};

template <typename Work>
void Schedule(tensorflow::thread::ThreadPool*, Work work) {
  std::thread(std::move(work)).detach();
}
#else
struct OpScope {
  OpScope() {}  // not trivial: no variable of this type is unused
};

template <typename Work>
void Schedule(tensorflow::thread::ThreadPool* pool, Work work) {
  pool->Schedule(std::move(work));
}
#endif

}  // namespace
}  // namespace tpu_columns
