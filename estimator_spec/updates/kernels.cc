// SPDX-License-Identifier: Apache-2.0
//
// CPU kernels that look up and update rows of an embedding table in one pass each.
//
// native_library.py compiles this file against the installed TensorFlow; native_ops.py puts the ops
// into training graphs. Each op computes what the ops it replaces compute, in the same
// order of summation. Loops over the elements of a row use +, -, *, / and sqrt only, which are
// rounded alike in vectors and scalars, so a row's result doesn't depend on its width or place.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
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
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tf_shared_lock;
using tensorflow::Var;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Rows are requested from memory this many rows ahead of their use.
constexpr int64_t kAhead = 12;

inline void Prefetch(const float* row, int64_t width) {
  for (int64_t place = 0; place < width; place += 16) __builtin_prefetch(row + place);
}

inline void PrefetchToWrite(const float* row, int64_t width) {
  for (int64_t place = 0; place < width; place += 16) __builtin_prefetch(row + place, 1);
}

// The nonzero elements of a sparse matrix: pairs of a row index and a column index.
struct Matrix {
  const int32_t* pairs;
  const float* values;
  int64_t count;
  bool adjoint;

  int64_t output(int64_t place) const { return pairs[2 * place + adjoint]; }
  int64_t input(int64_t place) const { return pairs[2 * place + !adjoint]; }
};

// Reads a sparse matrix from inputs `first` (pairs, [N, 2]) and `first` + 1 (values, [N]).
bool ReadMatrix(OpKernelContext* context, int first, bool adjoint, Matrix* matrix) {
  const Tensor& pairs = context->input(first);
  const Tensor& values = context->input(first + 1);
  if (pairs.dims() != 2 || pairs.dim_size(1) != 2) {
    context->SetStatus(
        InvalidArgument("a_indices must be [N, 2], got ", pairs.shape().DebugString()));
    return false;
  }
  if (pairs.dim_size(0) != values.NumElements()) {
    context->SetStatus(InvalidArgument(
        "Number of rows of a_indices does not match number of entries in a_values"));
    return false;
  }
  *matrix = {pairs.flat<int32_t>().data(), values.flat<float>().data(), pairs.dim_size(0), adjoint};
  return true;
}

// Returns the number of rows that a product has, from input `position` (the matrix' shape, [2]).
bool ReadOutputRows(OpKernelContext* context, int position, bool adjoint, int64_t* rows) {
  const Tensor& shape = context->input(position);
  if (shape.NumElements() != 2) {
    context->SetStatus(InvalidArgument("a_shape must have 2 elements"));
    return false;
  }
  *rows = shape.flat<int64_t>()(adjoint ? 1 : 0);
  if (*rows < 0) {
    context->SetStatus(InvalidArgument("a_shape must not be negative"));
    return false;
  }
  return true;
}

bool CheckMatrix(OpKernelContext* context, const Matrix& matrix, int64_t outputs, int64_t inputs) {
  for (int64_t place = 0; place < matrix.count; ++place) {
    if (static_cast<uint64_t>(matrix.output(place)) >= static_cast<uint64_t>(outputs) ||
        static_cast<uint64_t>(matrix.input(place)) >= static_cast<uint64_t>(inputs)) {
      context->SetStatus(InvalidArgument("a_indices[", place, "] is outside of the matrix"));
      return false;
    }
  }
  return true;
}

// Checks that all ids are rows of a table; the message is that of TensorFlow's gathers.
template <typename Id>
bool CheckIds(OpKernelContext* context, const Id* ids, int64_t count, int64_t rows) {
  for (int64_t place = 0; place < count; ++place) {
    if (static_cast<uint64_t>(static_cast<int64_t>(ids[place])) >= static_cast<uint64_t>(rows)) {
      context->SetStatus(InvalidArgument("indices[", place, "] = ", ids[place],
                                         " is not in [0, ", rows, ")"));
      return false;
    }
  }
  return true;
}

inline void AddScaled(float* sum, const float* row, float factor, int64_t width) {
  if (factor == 1.0f) {
    for (int64_t place = 0; place < width; ++place) sum[place] += row[place];
  } else {
    for (int64_t place = 0; place < width; ++place) sum[place] += factor * row[place];
  }
}

// ---------------------------------------------------------------------------------- Unique

REGISTER_OP("TpuColumnsUnique")
    .Input("ids: T")
    .Output("unique: T")
    .Output("index: int64")
    .Attr("T: {int32, int64}")
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
      c->set_output(1, c->input(0));
      return tensorflow::Status();
    })
    .Doc("Returns distinct ids in the order of their first occurrence, and each id's place.");

template <typename Id>
class UniqueOp : public OpKernel {
 public:
  explicit UniqueOp(OpKernelConstruction* context) : OpKernel(context) {}

  void Compute(OpKernelContext* context) override {
    const Tensor& input = context->input(0);
    OP_REQUIRES(context, input.dims() == 1, InvalidArgument("ids must be a vector"));
    const int64_t count = input.NumElements();
    OP_REQUIRES(context, count < (int64_t{1} << 30), InvalidArgument("too many ids: ", count));
    const Id* ids = input.flat<Id>().data();
    Tensor* index_tensor = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({count}), &index_tensor));
    int64_t* index = index_tensor->flat<int64_t>().data();
    int bits = 4;
    while ((int64_t{1} << bits) < 2 * count) ++bits;
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    std::vector<int32_t> table(mask + 1, -1);  // by hash: the place of an id in `unique`
    std::vector<Id> unique;
    unique.reserve(count);
    for (int64_t place = 0; place < count; ++place) {
      const Id id = ids[place];
      // The golden ratio spreads consecutive ids.
      uint64_t slot = (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15ull) >> (64 - bits);
      while (table[slot] >= 0 && unique[table[slot]] != id) slot = (slot + 1) & mask;
      if (table[slot] < 0) {
        table[slot] = static_cast<int32_t>(unique.size());
        unique.push_back(id);
      }
      index[place] = table[slot];
    }
    Tensor* unique_tensor = nullptr;
    const int64_t found = static_cast<int64_t>(unique.size());
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({found}), &unique_tensor));
    std::copy(unique.begin(), unique.end(), unique_tensor->flat<Id>().data());
  }
};

// ---------------------------------------------------------------------------------- lookups

tensorflow::Status ShapeOfLookUp(InferenceContext* c) {
  DimensionHandle width = c->UnknownDim();
  const ShapeHandle table = c->input(0);
  const auto* handle = c->input_handle_shapes_and_types(0);
  if (handle != nullptr && !handle->empty() && c->RankKnown((*handle)[0].shape) &&
      c->Rank((*handle)[0].shape) == 2) {
    width = c->Dim((*handle)[0].shape, 1);
  } else if (handle == nullptr && c->RankKnown(table) && c->Rank(table) == 2) {
    width = c->Dim(table, 1);
  }
  c->set_output(0, c->Matrix(InferenceContext::kUnknownDim, width));
  return tensorflow::Status();
}

#define LOOK_UP_INPUTS          \
      .Input("ids: Id")         \
      .Input("pairs: int32")    \
      .Input("values: float")   \
      .Input("shape: int64")    \
      .Output("sums: float")    \
      .Attr("Id: {int32, int64}") \
      .Attr("adjoint: bool")    \
      .SetShapeFn(ShapeOfLookUp)

REGISTER_OP("TpuColumnsLookUp").Input("table: float") LOOK_UP_INPUTS
    .Doc("Returns the product of a sparse matrix and the rows of a table at `ids`.");
REGISTER_OP("TpuColumnsResourceLookUp").Input("table: resource") LOOK_UP_INPUTS.SetIsStateful()
    .Doc("Returns the product of a sparse matrix and the rows of a variable at `ids`.");

template <typename Id>
class LookUpOp : public OpKernel {
 public:
  explicit LookUpOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("adjoint", &adjoint_));
  }

  void Compute(OpKernelContext* context) override {
    if (context->input_dtype(0) != tensorflow::DT_RESOURCE) {
      LookUp(context, context->input(0));
      return;
    }
    RefCountPtr<Var> variable;
    OP_REQUIRES_OK(context, tensorflow::LookupResource(
                                context, tensorflow::HandleFromInput(context, 0), &variable));
    tf_shared_lock lock(*variable->mu());
    OP_REQUIRES(context, variable->is_initialized,
                tensorflow::errors::FailedPrecondition("The table is not initialized."));
    LookUp(context, *variable->tensor());
  }

 private:
  void LookUp(OpKernelContext* context, const Tensor& table) {
    OP_REQUIRES(context, table.dims() == 2, InvalidArgument("a table must be a matrix"));
    const Tensor& id_tensor = context->input(1);
    const int64_t rows = table.dim_size(0), width = table.dim_size(1);
    const int64_t num_ids = id_tensor.NumElements();
    const Id* ids = id_tensor.flat<Id>().data();
    Matrix matrix;
    int64_t num_sums;
    if (!CheckIds(context, ids, num_ids, rows) || !ReadMatrix(context, 2, adjoint_, &matrix) ||
        !ReadOutputRows(context, 4, adjoint_, &num_sums) ||
        !CheckMatrix(context, matrix, num_sums, num_ids)) {
      return;
    }
    Tensor* sums_tensor = nullptr;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, TensorShape({num_sums, width}), &sums_tensor));
    float* sums = sums_tensor->flat<float>().data();
    const float* from = table.flat<float>().data();
    std::fill(sums, sums + num_sums * width, 0.0f);
    for (int64_t place = 0; place < matrix.count; ++place) {
      const int64_t later = place + kAhead;
      if (later < matrix.count) {
        Prefetch(from + static_cast<int64_t>(ids[matrix.input(later)]) * width, width);
      }
      AddScaled(sums + matrix.output(place) * width,
                from + static_cast<int64_t>(ids[matrix.input(place)]) * width,
                matrix.values[place], width);
    }
  }

  bool adjoint_;
};

REGISTER_OP("TpuColumnsProduct")
    .Input("pairs: int32")
    .Input("values: float")
    .Input("shape: int64")
    .Input("rows: float")
    .Output("sums: float")
    .Attr("adjoint: bool")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle rows;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 2, &rows));
      c->set_output(0, c->Matrix(InferenceContext::kUnknownDim, c->Dim(rows, 1)));
      return tensorflow::Status();
    })
    .Doc("Returns the product of a sparse matrix and a dense one of any width.");

class ProductOp : public OpKernel {
 public:
  explicit ProductOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("adjoint", &adjoint_));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& row_tensor = context->input(3);
    OP_REQUIRES(context, row_tensor.dims() == 2, InvalidArgument("b must be a matrix"));
    const int64_t width = row_tensor.dim_size(1);
    Matrix matrix;
    int64_t num_sums;
    if (!ReadMatrix(context, 0, adjoint_, &matrix) ||
        !ReadOutputRows(context, 2, adjoint_, &num_sums) ||
        !CheckMatrix(context, matrix, num_sums, row_tensor.dim_size(0))) {
      return;
    }
    Tensor* sums_tensor = nullptr;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, TensorShape({num_sums, width}), &sums_tensor));
    float* sums = sums_tensor->flat<float>().data();
    const float* rows = row_tensor.flat<float>().data();
    std::fill(sums, sums + num_sums * width, 0.0f);
    for (int64_t place = 0; place < matrix.count; ++place) {
      AddScaled(sums + matrix.output(place) * width, rows + matrix.input(place) * width,
                matrix.values[place], width);
    }
  }

 private:
  bool adjoint_;
};

// ---------------------------------------------------------------------------------- updates

// New values of the elements of a row and its slots; formulas as in kernels.py and, for
// `adagrad_no_nan`, in cores/update_rules.py.
enum class Rule { kSgd, kAdagrad, kAdagradNoNan, kAdagradV2, kFtrl, kFtrlV2 };

struct Hyperparameters {
  float rate = 0, epsilon = 0, l1 = 0, l2 = 0, shrinkage = 0, power = 0;
};

void UpdateRow(Rule rule, const Hyperparameters& h, float* w, float* const* slots, const float* g,
               int64_t width) {
  switch (rule) {
    case Rule::kSgd:
      for (int64_t i = 0; i < width; ++i) w[i] -= h.rate * g[i];
      return;
    case Rule::kAdagrad: {
      float* a = slots[0];
      for (int64_t i = 0; i < width; ++i) {
        a[i] += g[i] * g[i];
        w[i] -= h.rate * g[i] / std::sqrt(a[i]);
      }
      return;
    }
    case Rule::kAdagradNoNan: {
      float* a = slots[0];
      for (int64_t i = 0; i < width; ++i) {
        a[i] += g[i] * g[i];
        const float moved = h.rate * g[i];
        w[i] -= moved == 0.0f ? 0.0f : moved / std::sqrt(a[i]);
      }
      return;
    }
    case Rule::kAdagradV2: {
      float* a = slots[0];
      for (int64_t i = 0; i < width; ++i) {
        a[i] += g[i] * g[i];
        w[i] -= h.rate * g[i] / (std::sqrt(a[i]) + h.epsilon);
      }
      return;
    }
    case Rule::kFtrl:
    case Rule::kFtrlV2: {
      float* a = slots[0];
      float* linear = slots[1];
      for (int64_t i = 0; i < width; ++i) {
        const float old_a = a[i];
        const float new_a = old_a + g[i] * g[i];
        float root, new_root;
        if (h.power == -0.5f) {
          root = std::sqrt(old_a);
          new_root = std::sqrt(new_a);
        } else {
          root = std::pow(old_a, -h.power);
          new_root = std::pow(new_a, -h.power);
        }
        // Not with a shrinkage of 0: times an infinite weight it would be NaN.
        const float in_linear =
            rule == Rule::kFtrl ? g[i] : g[i] + 2.0f * h.shrinkage * w[i];
        linear[i] = linear[i] + in_linear - (new_root - root) / h.rate * w[i];
        const float curvature = new_root / h.rate + 2.0f * h.l2;
        const float clipped = std::min(std::max(linear[i], -h.l1), h.l1);
        w[i] = (clipped - linear[i]) / curvature;
        a[i] = new_a;
      }
      return;
    }
  }
}

#define UPDATE_ATTRIBUTES                                                       \
      .Input("hyperparameters: num_hyperparameters * float")                     \
      .Input("ids: Id")                                                         \
      .Input("gradients: num_gradients * float")                                \
      .Input("pairs: int32")                                                    \
      .Input("values: float")                                                   \
      .Attr("num_slots: int >= 0")                                              \
      .Attr("num_hyperparameters: int >= 1")                                    \
      .Attr("num_gradients: int >= 1")                                          \
      .Attr("Id: {int32, int64}")                                               \
      .Attr("rule: {'sgd', 'adagrad', 'adagrad_no_nan', 'adagrad_v2', 'ftrl', "  \
            "'ftrl_v2'}")                                                       \
      .Attr("sums: bool")                                                       \
      .Attr("adjoint: bool")                                                    \
      .SetIsStateful()                                                          \
      .SetShapeFn(tensorflow::shape_inference::NoOutputs)

REGISTER_OP("TpuColumnsUpdate")
    .Input("table: Ref(float)")
    .Input("slots: Ref(num_slots * float)") UPDATE_ATTRIBUTES
    .Doc("Updates rows of a reference variable; see TpuColumnsResourceUpdate.");
REGISTER_OP("TpuColumnsResourceUpdate")
    .Input("table: resource")
    .Input("slots: num_slots * resource") UPDATE_ATTRIBUTES.Doc(R"doc(
Updates rows of a variable and its slot variables, in place.

ids: distinct rows, [U].
gradients: of those rows, [U, D] in all; or with `sums` the second factor, [S, D] in all, of the
  product of a sparse matrix that gives it. One or several tensors, whose rows follow each other.
pairs, values: the sparse matrix, read with `sums`.
adjoint: whether the sparse matrix is transposed first.
)doc");

// A table or slot variable that an op writes.
struct Written {
  RefCountPtr<Var> resource;
  Tensor reference;
  float* data = nullptr;
};

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

template <typename Id>
class UpdateOp : public OpKernel {
 public:
  explicit UpdateOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_slots", &num_slots_));
    OP_REQUIRES_OK(context, context->GetAttr("num_hyperparameters", &num_hyperparameters_));
    OP_REQUIRES_OK(context, context->GetAttr("num_gradients", &num_gradients_));
    OP_REQUIRES_OK(context, context->GetAttr("sums", &sums_));
    OP_REQUIRES_OK(context, context->GetAttr("adjoint", &adjoint_));
    std::string rule;
    OP_REQUIRES_OK(context, context->GetAttr("rule", &rule));
    int slots = 1, hyperparameters = 1;
    if (rule == "sgd") {
      rule_ = Rule::kSgd;
      slots = 0;
    } else if (rule == "adagrad") {
      rule_ = Rule::kAdagrad;
    } else if (rule == "adagrad_no_nan") {
      rule_ = Rule::kAdagradNoNan;
    } else if (rule == "adagrad_v2") {
      rule_ = Rule::kAdagradV2;
      hyperparameters = 2;
    } else if (rule == "ftrl") {
      rule_ = Rule::kFtrl;
      slots = 2;
      hyperparameters = 4;
    } else {
      rule_ = Rule::kFtrlV2;
      slots = 2;
      hyperparameters = 5;
    }
    OP_REQUIRES(context, num_slots_ == slots && num_hyperparameters_ == hyperparameters,
                InvalidArgument("rule ", rule, " takes ", slots, " slots and ", hyperparameters,
                                " hyperparameters"));
  }

  void Compute(OpKernelContext* context) override {
    const bool is_reference = context->input_is_ref(0);
    Hyperparameters h;
    if (!ReadHyperparameters(context, &h)) return;
    std::vector<Written> variables(1 + num_slots_);
    if (is_reference) {
      mutex_lock lock(*context->input_ref_mutex(0));
      for (int place = 0; place <= num_slots_; ++place) {
        variables[place].reference = context->mutable_input(place, /*lock_held=*/place == 0);
        OP_REQUIRES(context, variables[place].reference.IsInitialized(),
                    tensorflow::errors::FailedPrecondition("Attempting to use uninitialized value ",
                                                           requested_input(place)));
        if (!CheckShape(context, variables[place].reference, variables[0].reference)) return;
        variables[place].data = variables[place].reference.template flat<float>().data();
      }
      Update(context, variables[0].reference, variables, h);
      return;
    }
    for (int place = 0; place <= num_slots_; ++place) {
      OP_REQUIRES_OK(context, tensorflow::LookupResource(
                                  context, tensorflow::HandleFromInput(context, place),
                                  &variables[place].resource));
    }
    // In the order of their addresses, so that two updates can't wait for each other.
    std::vector<mutex*> mutexes;
    for (const Written& written : variables) mutexes.push_back(written.resource->mu());
    std::sort(mutexes.begin(), mutexes.end());
    mutexes.erase(std::unique(mutexes.begin(), mutexes.end()), mutexes.end());
    std::vector<std::unique_ptr<mutex_lock>> locks;
    for (mutex* each : mutexes) locks.push_back(std::make_unique<mutex_lock>(*each));
    for (Written& written : variables) {
      OP_REQUIRES(context, written.resource->is_initialized,
                  tensorflow::errors::FailedPrecondition("A table or slot is not initialized."));
      const Tensor& found = *written.resource->tensor();
      if (!CheckShape(context, found, *variables[0].resource->tensor())) return;
      OP_REQUIRES_OK(context, MakeWritable(context, written.resource.get()));
      written.data = written.resource->tensor()->template flat<float>().data();
    }
    Update(context, *variables[0].resource->tensor(), variables, h);
  }

 private:
  bool CheckShape(OpKernelContext* context, const Tensor& slot, const Tensor& table) {
    if (slot.dtype() == tensorflow::DT_FLOAT && slot.shape() == table.shape()) return true;
    context->SetStatus(InvalidArgument(
        "var and its slots do not have the same shape and dtype float: ",
        table.shape().DebugString(), ", ", slot.shape().DebugString()));
    return false;
  }

  bool ReadHyperparameters(OpKernelContext* context, Hyperparameters* h) {
    std::vector<float> found;
    for (int place = 0; place < num_hyperparameters_; ++place) {
      const Tensor& value = context->input(1 + num_slots_ + place);
      if (value.NumElements() != 1) {
        context->SetStatus(InvalidArgument("hyperparameters must be scalars"));
        return false;
      }
      found.push_back(value.flat<float>()(0));
    }
    h->rate = found[0];
    if (rule_ == Rule::kAdagradV2) h->epsilon = found[1];
    if (rule_ == Rule::kFtrl || rule_ == Rule::kFtrlV2) {
      h->l1 = found[1];
      h->l2 = found[2];
      h->power = found[3];
    }
    if (rule_ == Rule::kFtrlV2) h->shrinkage = found[4];
    const bool is_ftrl = rule_ == Rule::kFtrl || rule_ == Rule::kFtrlV2;
    if (is_ftrl && !(h->rate > 0 && h->l1 >= 0 && h->l2 >= 0 && h->shrinkage >= 0 &&
                     h->power <= 0)) {
      context->SetStatus(InvalidArgument(
          "Ftrl needs lr > 0, l1 >= 0, l2 >= 0, l2_shrinkage >= 0 and lr_power <= 0; got ",
          h->rate, ", ", h->l1, ", ", h->l2, ", ", h->shrinkage, ", ", h->power));
      return false;
    }
    return true;
  }

  void Update(OpKernelContext* context, const Tensor& table, const std::vector<Written>& variables,
              const Hyperparameters& h) {
    const int inputs = 1 + num_slots_ + num_hyperparameters_;
    const Tensor& id_tensor = context->input(inputs);
    OP_REQUIRES(context, table.dims() == 2, InvalidArgument("a table must be a matrix"));
    const int64_t width = table.dim_size(1), num_ids = id_tensor.NumElements();
    std::vector<const float*> gradients;  // by row
    for (int place = 0; place < num_gradients_; ++place) {
      const Tensor& part = context->input(inputs + 1 + place);
      OP_REQUIRES(context, part.dims() == 2 && part.dim_size(1) == width,
                  InvalidArgument("table ", table.shape().DebugString(), " and gradient ",
                                  part.shape().DebugString(), " differ in width"));
      const float* rows = part.flat<float>().data();
      for (int64_t row = 0; row < part.dim_size(0); ++row) gradients.push_back(rows + row * width);
    }
    const int64_t num_gradients = static_cast<int64_t>(gradients.size());
    const Id* ids = id_tensor.flat<Id>().data();
    if (!CheckIds(context, ids, num_ids, table.dim_size(0))) return;
    std::vector<float> sums;
    if (sums_) {
      Matrix matrix;
      if (!ReadMatrix(context, inputs + 1 + num_gradients_, adjoint_, &matrix) ||
          !CheckMatrix(context, matrix, num_ids, num_gradients)) {
        return;
      }
      sums.assign(num_ids * width, 0.0f);
      for (int64_t place = 0; place < matrix.count; ++place) {
        AddScaled(sums.data() + matrix.output(place) * width, gradients[matrix.input(place)],
                  matrix.values[place], width);
      }
    } else {
      OP_REQUIRES(context, num_gradients == num_ids,
                  InvalidArgument("there are ", num_ids, " ids and ", num_gradients, " gradients"));
    }
    std::vector<float*> slots(num_slots_);
    for (int64_t place = 0; place < num_ids; ++place) {
      const int64_t later = place + kAhead;
      if (later < num_ids) {
        for (const Written& written : variables) {
          PrefetchToWrite(written.data + static_cast<int64_t>(ids[later]) * width, width);
        }
      }
      const int64_t offset = static_cast<int64_t>(ids[place]) * width;
      for (int slot = 0; slot < num_slots_; ++slot) slots[slot] = variables[slot + 1].data + offset;
      const float* gradient = sums_ ? sums.data() + place * width : gradients[place];
      UpdateRow(rule_, h, variables[0].data + offset, slots.data(), gradient, width);
    }
  }

  Rule rule_;
  int num_slots_, num_hyperparameters_, num_gradients_;
  bool sums_, adjoint_;
};

#define REGISTER_FOR_IDS(Id)                                                                      \
  REGISTER_KERNEL_BUILDER(                                                                        \
      Name("TpuColumnsUnique").Device(tensorflow::DEVICE_CPU).TypeConstraint<Id>("T"),            \
      UniqueOp<Id>);                                                                              \
  REGISTER_KERNEL_BUILDER(                                                                        \
      Name("TpuColumnsLookUp").Device(tensorflow::DEVICE_CPU).TypeConstraint<Id>("Id"),           \
      LookUpOp<Id>);                                                                              \
  REGISTER_KERNEL_BUILDER(                                                                        \
      Name("TpuColumnsResourceLookUp").Device(tensorflow::DEVICE_CPU).TypeConstraint<Id>("Id"),   \
      LookUpOp<Id>);                                                                              \
  REGISTER_KERNEL_BUILDER(                                                                        \
      Name("TpuColumnsUpdate").Device(tensorflow::DEVICE_CPU).TypeConstraint<Id>("Id"),           \
      UpdateOp<Id>);                                                                              \
  REGISTER_KERNEL_BUILDER(                                                                        \
      Name("TpuColumnsResourceUpdate").Device(tensorflow::DEVICE_CPU).TypeConstraint<Id>("Id"),   \
      UpdateOp<Id>);
REGISTER_FOR_IDS(int32_t)
REGISTER_FOR_IDS(int64_t)
REGISTER_KERNEL_BUILDER(Name("TpuColumnsProduct").Device(tensorflow::DEVICE_CPU), ProductOp);

}  // namespace
}  // namespace tpu_columns
