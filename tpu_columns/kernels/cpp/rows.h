// SPDX-License-Identifier: Apache-2.0
//
// Rows of tables: sums, and distinct ids; checks of attributes, and locks of variables.
//
// Loops over the elements of a row use +, -, *, / and sqrt only (Ftrl with a power other than -0.5
// also pow), which are rounded alike in vectors and scalars, so a row's result doesn't depend on its
// width or place.

#ifndef TPU_COLUMNS_ROWS_H_
#define TPU_COLUMNS_ROWS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tpu_columns {
namespace {

using tensorflow::core::RefCountPtr;
using tensorflow::errors::InvalidArgument;
using tensorflow::mutex;
using tensorflow::mutex_lock;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tf_shared_lock;
using tensorflow::Var;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

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

// Finds the distinct ones of `count` < 2^29 ids, in the order of their first occurrence, and the
// place of each id among them. Without branches that depend on whether an id is new, which
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

// Makes sure that no other tensor shares the variable's memory, as TensorFlow's sparse updates do.
tensorflow::Status MakeWritable(OpKernelContext* context, Var* variable) {
  if (variable->copy_on_read_mode.load()) return tensorflow::Status();
  Tensor* tensor = variable->tensor();
  if (!tensor->RefCountIsOne()) {
    Tensor copy;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
    std::memcpy(copy.flat<float>().data(), tensor->flat<float>().data(),
                sizeof(float) * tensor->NumElements());
    *tensor = copy;
  }
  variable->copy_on_read_mode.store(true);
  return tensorflow::Status();
}

// Checks that attributes have `count` elements each.
inline Status CheckSizes(std::initializer_list<const std::vector<int64_t>*> attributes,
                         size_t count) {
  for (const std::vector<int64_t>* each : attributes) {
    if (each->size() != count) {
      return InvalidArgument("an attribute has ", each->size(), " elements, expected ", count);
    }
  }
  return tensorflow::Status();
}

// Checks numbers of columns: so far from the largest integer that sums of two don't overflow.
inline Status CheckWidths(const std::vector<int64_t>& widths) {
  for (const int64_t width : widths) {
    if (width < 0 || width >= int64_t{1} << 61) {
      return InvalidArgument("a layer has ", width, " columns");
    }
  }
  return tensorflow::Status();
}

// Locked variables of type float32, which an op reads or writes.
class LockedVariables {
 public:
  // Locks the variables whose handles are inputs `first` and following; a failure is the op's.
  bool Lock(OpKernelContext* context, int first, int count, bool to_write) {
    variables_.resize(count);
    std::vector<mutex*> mutexes;
    for (int place = 0; place < count; ++place) {
      const auto status = tensorflow::LookupResource(
          context, tensorflow::HandleFromInput(context, first + place), &variables_[place]);
      if (!status.ok()) {
        context->SetStatus(status);
        return false;
      }
      mutexes.push_back(variables_[place]->mu());
    }
    // In the order of their addresses, so that two ops can't wait for each other.
    std::sort(mutexes.begin(), mutexes.end());
    mutexes.erase(std::unique(mutexes.begin(), mutexes.end()), mutexes.end());
    if (to_write && mutexes.size() < variables_.size()) {
      context->SetStatus(InvalidArgument("a variable is given twice"));
      return false;
    }
    for (mutex* each : mutexes) {
      if (to_write) {
        exclusive_.push_back(std::make_unique<mutex_lock>(*each));
      } else {
        shared_.push_back(std::make_unique<tf_shared_lock>(*each));
      }
    }
    for (RefCountPtr<Var>& variable : variables_) {
      auto status = variable->is_initialized
                        ? tensorflow::Status()
                        : tensorflow::errors::FailedPrecondition("A table or slot is not initialized.");
      if (status.ok() && variable->tensor()->dtype() != tensorflow::DT_FLOAT) {
        status = InvalidArgument("a table or slot is not float");
      }
      if (status.ok() && to_write) status = MakeWritable(context, variable.get());
      if (!status.ok()) {
        context->SetStatus(status);
        return false;
      }
    }
    return true;
  }

  Tensor& operator[](int place) { return *variables_[place]->tensor(); }

  int64_t num_bytes() {
    int64_t sum = 0;
    for (RefCountPtr<Var>& variable : variables_) sum += variable->tensor()->TotalBytes();
    return sum;
  }

 private:
  // Declared first, so that the locks are released before the variables.
  std::vector<RefCountPtr<Var>> variables_;
  std::vector<std::unique_ptr<mutex_lock>> exclusive_;
  std::vector<std::unique_ptr<tf_shared_lock>> shared_;
};

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_ROWS_H_
