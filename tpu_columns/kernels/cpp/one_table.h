// SPDX-License-Identifier: Apache-2.0
//
// Ops that replace TensorFlow's in the lookup and update of one table; see
// estimator_spec/updates/native_ops.py.
//
// Each computes what the ops that it replaces compute, in the same order of summation.

#ifndef TPU_COLUMNS_ONE_TABLE_H_
#define TPU_COLUMNS_ONE_TABLE_H_

#include "rows.h"

namespace tpu_columns {
namespace {

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

// Makes output 0 the product of a checked matrix and rows of `width` elements, which `row` finds.
template <typename Row>
void Multiply(OpKernelContext* context, const Matrix& matrix, int64_t num_sums, int64_t width,
              const Row& row) {
  Tensor* sums_tensor = nullptr;
  TensorShape shape;
  OP_REQUIRES_OK(context, TensorShape::BuildTensorShape({num_sums, width}, &shape));
  OP_REQUIRES_OK(context, context->allocate_output(0, shape, &sums_tensor));
  float* sums = sums_tensor->flat<float>().data();
  std::fill(sums, sums + num_sums * width, 0.0f);
  for (int64_t place = 0; place < matrix.count; ++place) {
    const int64_t later = place + kAhead;
    if (later < matrix.count) Prefetch(row(matrix.input(later)), width);
    AddScaled(sums + matrix.output(place) * width, row(matrix.input(place)), matrix.values[place],
              width);
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
    OP_REQUIRES(context, count < (int64_t{1} << 29), InvalidArgument("too many ids: ", count));
    const Id* ids = input.flat<Id>().data();
    Tensor* index_tensor = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({count}), &index_tensor));
    std::vector<Id> unique;
    FindDistinct(ids, count, index_tensor->flat<int64_t>().data(), &unique);
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

#define TPU_COLUMNS_LOOK_UP          \
      .Input("ids: Id")         \
      .Input("pairs: int32")    \
      .Input("values: float")   \
      .Input("shape: int64")    \
      .Output("sums: float")    \
      .Attr("Id: {int32, int64}") \
      .Attr("adjoint: bool")    \
      .SetShapeFn(ShapeOfLookUp)

REGISTER_OP("TpuColumnsLookUp").Input("table: float") TPU_COLUMNS_LOOK_UP
    .Doc("Returns the product of a sparse matrix and the rows of a table at `ids`.");
REGISTER_OP("TpuColumnsResourceLookUp").Input("table: resource") TPU_COLUMNS_LOOK_UP.SetIsStateful()
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
    OP_REQUIRES(context, variable->tensor()->dtype() == tensorflow::DT_FLOAT,
                InvalidArgument("a table is not float"));
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
    const float* from = table.flat<float>().data();
    Multiply(context, matrix, num_sums, width, [&](int64_t place) {
      return from + static_cast<int64_t>(ids[place]) * width;
    });
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
    const float* rows = row_tensor.flat<float>().data();
    Multiply(context, matrix, num_sums, width,
             [&](int64_t place) { return rows + place * width; });
  }

 private:
  bool adjoint_;
};

// ---------------------------------------------------------------------------------- updates

#define TPU_COLUMNS_UPDATE                                                       \
      .Input("hyperparameters: num_hyperparameters * float")                     \
      .Input("ids: Id")                                                         \
      .Input("gradients: num_gradients * float")                                \
      .Input("pairs: int32")                                                    \
      .Input("values: float")                                                   \
      .Attr("num_slots: int >= 0")                                              \
      .Attr("num_hyperparameters: int >= 1")                                    \
      .Attr("num_gradients: int >= 1")                                          \
      .Attr("Id: {int32, int64}")                                               \
      .Attr("rule: {'adagrad', 'adagrad_v2', 'ftrl', 'ftrl_v2'}")               \
      .Attr("sums: bool")                                                       \
      .Attr("adjoint: bool")                                                    \
      .SetIsStateful()                                                          \
      .SetShapeFn(tensorflow::shape_inference::NoOutputs)

REGISTER_OP("TpuColumnsUpdate")
    .Input("table: Ref(float)")
    .Input("slots: Ref(num_slots * float)") TPU_COLUMNS_UPDATE
    .Doc("Updates rows of a reference variable; see TpuColumnsResourceUpdate.");
REGISTER_OP("TpuColumnsResourceUpdate")
    .Input("table: resource")
    .Input("slots: num_slots * resource") TPU_COLUMNS_UPDATE.Doc(R"doc(
Updates rows of a variable and its slot variables, in place.

ids: distinct rows, [U].
gradients: of those rows, [U, D] in all; or with `sums` the second factor, [S, D] in all, of the
  product of a sparse matrix that gives it. One or several tensors, whose rows follow each other.
pairs, values: the sparse matrix, read with `sums`.
adjoint: whether the sparse matrix is transposed first.
)doc");

// A table or slot variable that an op writes.
struct Written {
  Tensor reference;  // empty: a resource variable
  float* data = nullptr;
};

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
    if (rule == "adagrad") {
      rule_ = Rule::kAdagrad;
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
        OP_REQUIRES(context,
                    place == 0 || context->input_ref_mutex(place) != context->input_ref_mutex(0),
                    InvalidArgument("the table is one of its slots"));
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
    LockedVariables locked;
    if (!locked.Lock(context, 0, 1 + num_slots_, /*to_write=*/true)) return;
    for (int place = 0; place <= num_slots_; ++place) {
      if (!CheckShape(context, locked[place], locked[0])) return;
      variables[place].data = locked[place].template flat<float>().data();
    }
    Update(context, locked[0], variables, h);
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
    if (sums_) {
      gradients.resize(num_ids);
      for (int64_t place = 0; place < num_ids; ++place) {
        gradients[place] = sums.data() + place * width;
      }
    }
    std::array<float*, kMaxSlots> slots{};
    for (int slot = 0; slot < num_slots_; ++slot) slots[slot] = variables[slot + 1].data;
    UpdateRows(rule_, h, variables[0].data, slots, std::vector<int64_t>(ids, ids + num_ids),
               gradients, width);
  }

  Rule rule_;
  int num_slots_, num_hyperparameters_, num_gradients_;
  bool sums_, adjoint_;
};

#define TPU_COLUMNS_REGISTER_FOR_IDS(Id)                                                                      \
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
TPU_COLUMNS_REGISTER_FOR_IDS(int32_t)
TPU_COLUMNS_REGISTER_FOR_IDS(int64_t)
REGISTER_KERNEL_BUILDER(Name("TpuColumnsProduct").Device(tensorflow::DEVICE_CPU), ProductOp);

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_ONE_TABLE_H_
