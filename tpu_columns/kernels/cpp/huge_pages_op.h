// SPDX-License-Identifier: Apache-2.0
//
// Huge pages for tables; see estimator_spec/core/driver/huge_pages.py.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "op_helpers.h"
#include "shared_work.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace tpu_columns {
namespace {

// A thread moves this many pages at a time.
constexpr int64_t kPagesOfAPart = 16;

// Gives each page of aligned memory back and writes it again, into a page that the kernel makes: a
// huge one, if it has one. Returns how many were written; stops at one that can't be given back.
inline int64_t MovePages(char* memory, int64_t page_bytes, int64_t count) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (madvise(memory, count * page_bytes, MADV_HUGEPAGE) != 0) return 0;
  const std::unique_ptr<char[]> copy(new char[page_bytes]);
  for (int64_t page = 0; page < count; ++page, memory += page_bytes) {
    std::memcpy(copy.get(), memory, page_bytes);
    if (madvise(memory, page_bytes, MADV_DONTNEED) != 0) return page;
    std::memcpy(memory, copy.get(), page_bytes);
  }
  return count;
#else
  return 0;
#endif
}

REGISTER_OP("TpuColumnsUseHugePages")
    .Input("values: float")
    .Output("num_bytes: int64")
    .Attr("page_bytes: int >= 4096")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Moves the memory of a variable to huge pages of the system, and returns how many bytes moved.

values: of the variable, read without a copy. No other op may use it meanwhile: others would read
  zeros, or lose what they write.
page_bytes: size of a huge page, a power of two.
)doc");

class UseHugePagesOp : public OpKernel {
 public:
  explicit UseHugePagesOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("page_bytes", &page_bytes_));
    OP_REQUIRES(context, page_bytes_ <= (1 << 30) && (page_bytes_ & (page_bytes_ - 1)) == 0,
                InvalidArgument("a page of ", page_bytes_, " bytes: not a power of two to 2^30"));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& values = context->input(0);
    const auto start = reinterpret_cast<uintptr_t>(values.data());
    const uintptr_t size = page_bytes_;
    // Pages that are of this variable alone.
    const uintptr_t first = (start + size - 1) / size, end = (start + values.TotalBytes()) / size;
    char* const first_page = static_cast<char*>(values.data()) + (first * size - start);
    const int64_t num_pages = end > first ? end - first : 0;
    const int64_t num_parts = (num_pages + kPagesOfAPart - 1) / kPagesOfAPart;
    std::atomic<int64_t> num_moved{0};
    const auto move = [&](int64_t part) {
      const int64_t page = part * kPagesOfAPart;
      num_moved += MovePages(first_page + page * page_bytes_, page_bytes_,
                             std::min(kPagesOfAPart, num_pages - page));
      return absl::OkStatus();
    };
    OP_REQUIRES_OK(context, ForEach(context, num_parts, num_parts > 1, move));
    Tensor* num_bytes = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape(), &num_bytes));
    num_bytes->scalar<int64_t>()() = num_moved.load() * page_bytes_;
  }

 private:
  int64_t page_bytes_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TpuColumnsUseHugePages").Device(tensorflow::DEVICE_CPU),
                        UseHugePagesOp);

}  // namespace
}  // namespace tpu_columns
