// SPDX-License-Identifier: Apache-2.0
//
// What several ops need: checks of attributes and inputs, and locks of variables.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tpu_columns {
namespace {

using tensorflow::mutex_lock;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tf_shared_lock;
using tensorflow::Var;
using tensorflow::core::RefCountPtr;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;

// Returns an error whose text is made of parts; tensorflow::errors has a deprecated one.
template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Checks that lists, given by their sizes, have `count` elements each.
inline absl::Status CheckSizes(std::initializer_list<size_t> sizes, int64_t count) {
  for (const size_t size : sizes) {
    if (static_cast<int64_t>(size) != count) {
      return InvalidArgument("an attribute has ", size, " elements, expected ", count);
    }
  }
  return absl::OkStatus();
}

// Returns whether a number is so far from the largest integer that sums of two don't overflow.
inline bool IsCount(int64_t value) { return value >= 0 && value < int64_t{1} << 61; }

// Checks numbers of columns.
inline absl::Status CheckWidths(const std::vector<int64_t>& widths) {
  for (const int64_t width : widths) {
    if (!IsCount(width)) return InvalidArgument("a layer has ", width, " columns");
  }
  return absl::OkStatus();
}

// Sets a number to the only element of a tensor.
inline absl::Status ReadScalar(const Tensor& tensor, const char* name, float* value) {
  if (tensor.NumElements() != 1) return InvalidArgument(name, " must be a scalar");
  *value = tensor.flat<float>()(0);
  return absl::OkStatus();
}

// Makes sure that no other tensor shares the variable's memory, as TensorFlow's sparse updates do.
inline absl::Status MakeWritable(OpKernelContext* context, Var* variable) {
  if (variable->copy_on_read_mode.load()) return absl::OkStatus();
  Tensor* tensor = variable->tensor();
  if (!tensor->RefCountIsOne()) {
    Tensor copy;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
    std::memcpy(copy.flat<float>().data(), tensor->flat<float>().data(),
                sizeof(float) * tensor->NumElements());
    *tensor = copy;
  }
  variable->copy_on_read_mode.store(true);
  return absl::OkStatus();
}

// Locked variables of type float32, which an op reads or writes.
class LockedVariables {
 public:
  // Locks the variables whose handles are the first `count` inputs.
  absl::Status Lock(OpKernelContext* context, int count, bool to_write) {
    variables_.resize(count);
    std::vector<Var*> distinct;
    for (int place = 0; place < count; ++place) {
      RefCountPtr<Var>* variable = &variables_[place];
      TF_RETURN_IF_ERROR(tensorflow::LookupResource(
          context, tensorflow::HandleFromInput(context, place), variable));
      distinct.push_back(variable->get());
    }
    // By address, as TensorFlow locks several variables, so that two ops can't wait for each other.
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    if (to_write && distinct.size() < variables_.size()) {
      return InvalidArgument("a variable is given twice");
    }
    for (Var* each : distinct) {
      if (to_write) {
        exclusive_.push_back(std::make_unique<mutex_lock>(*each->mu()));
      } else {
        shared_.push_back(std::make_unique<tf_shared_lock>(*each->mu()));
      }
    }
    for (RefCountPtr<Var>& variable : variables_) {
      if (!variable->is_initialized) {
        return absl::FailedPreconditionError("A table or slot is not initialized.");
      }
      if (variable->tensor()->dtype() != tensorflow::DT_FLOAT) {
        return InvalidArgument("a table or slot is not float");
      }
      if (to_write) TF_RETURN_IF_ERROR(MakeWritable(context, variable.get()));
    }
    return absl::OkStatus();
  }

  // Returns the values of the variables.
  std::vector<Tensor*> tensors() {
    std::vector<Tensor*> result;
    result.reserve(variables_.size());
    for (RefCountPtr<Var>& variable : variables_) result.push_back(variable->tensor());
    return result;
  }

 private:
  // Declared first, so that the locks are released before the variables.
  std::vector<RefCountPtr<Var>> variables_;
  std::vector<std::unique_ptr<mutex_lock>> exclusive_;
  std::vector<std::unique_ptr<tf_shared_lock>> shared_;
};

}  // namespace
}  // namespace tpu_columns
