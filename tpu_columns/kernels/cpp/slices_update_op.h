// SPDX-License-Identifier: Apache-2.0
//
// Op that updates one table by slices of its gradient, in place of an optimizer's own op; see
// estimator_spec/core/updates/native_ops.py.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "op_helpers.h"
#include "optimizer.h"
#include "ordering.h"
#include "row_gradients.h"
#include "rows.h"

namespace tpu_columns {
namespace {

#define TPU_COLUMNS_UPDATE                               \
  .Input("hyperparameters: num_hyperparameters * float") \
      .Input("ids: Id")                                  \
      .Input("gradients: num_gradients * float")         \
      .Attr("num_slots: int >= 0")                       \
      .Attr("num_hyperparameters: int >= 1")             \
      .Attr("num_gradients: int >= 1")                   \
      .Attr("Id: {int32, int64}")                        \
      .Attr("rule: string")                              \
      .Attr("sums: bool")                                \
      .Attr("limits: list(float) = []")                  \
      .Attr("decay_has_rate: bool = false")              \
      .SetIsStateful()                                   \
      .SetShapeFn(tensorflow::shape_inference::NoOutputs)

REGISTER_OP("TpuColumnsUpdate")
    .Input("table: Ref(float)")
    .Input("slots: Ref(num_slots * float)") TPU_COLUMNS_UPDATE.Doc(
        "Updates rows of a reference variable; see TpuColumnsResourceUpdate.");
REGISTER_OP("TpuColumnsResourceUpdate")
    .Input("table: resource")
    .Input("slots: num_slots * resource") TPU_COLUMNS_UPDATE.Doc(R"doc(
Updates rows of a variable and its slot variables, in place.

ids: rows, [U]; distinct, unless `sums`.
gradients: of those rows, [U, D] in all: one or several tensors, whose rows follow each other.
sums: whether gradients of equal ids are summed, in their order.
rule: name in `kRules`; slots and hyperparameters are in its order.
limits, decay_has_rate: as for TpuColumnsUpdateTables.
)doc");

template <typename Id>
class SlicesUpdateOp : public OpKernel {
 public:
  explicit SlicesUpdateOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_slots", &num_slots_));
    OP_REQUIRES_OK(context, context->GetAttr("num_hyperparameters", &num_hyperparameters_));
    OP_REQUIRES_OK(context, context->GetAttr("num_gradients", &num_gradients_));
    OP_REQUIRES_OK(context, context->GetAttr("sums", &sums_));
    OP_REQUIRES_OK(context, optimizer_.Read(context, 1, num_slots_, num_hyperparameters_));
  }

  void Compute(OpKernelContext* context) override {
    const OpScope scope;
    if (!context->input_is_ref(0)) {
      LockedVariables variables;
      OP_REQUIRES_OK(context, variables.Lock(context, 1 + num_slots_, /*to_write=*/true));
      OP_REQUIRES_OK(context, Update(context, variables.tensors()));
      return;
    }
    mutex_lock lock(*context->input_ref_mutex(0));
    std::vector<Tensor> variables(1 + num_slots_);
    std::vector<Tensor*> values;
    for (int place = 0; place <= num_slots_; ++place) {
      OP_REQUIRES(context,
                  place == 0 || context->input_ref_mutex(place) != context->input_ref_mutex(0),
                  InvalidArgument("the table is one of its slots"));
      variables[place] = context->mutable_input(place, /*lock_held=*/place == 0);
      OP_REQUIRES(context, variables[place].IsInitialized(),
                  absl::FailedPreconditionError(absl::StrCat(
                      "Attempting to use uninitialized value ", requested_input(place))));
      values.push_back(&variables[place]);
    }
    OP_REQUIRES_OK(context, Update(context, values));
  }

 private:
  // Updates a locked table and its slots.
  absl::Status Update(OpKernelContext* context, const std::vector<Tensor*>& variables) const {
    int input = 1 + num_slots_;
    float rate = 0;
    std::vector<float> others(num_hyperparameters_ - 1);
    TF_RETURN_IF_ERROR(ReadScalar(context->input(input++), "the rate", &rate));
    for (float& each : others) {
      TF_RETURN_IF_ERROR(ReadScalar(context->input(input++), "a hyperparameter", &each));
    }
    Hyperparameters h;
    TF_RETURN_IF_ERROR(optimizer_.SetHyperparameters(rate, others, &h));
    std::vector<Table> tables;
    TF_RETURN_IF_ERROR(optimizer_.FindTables(variables, 1, &tables));
    const Table& table = tables[0];
    std::vector<int64_t> rows;
    TF_RETURN_IF_ERROR(ReadIds(context->input(input++), table.num_rows, &rows));
    std::vector<const float*> gradients;  // by row
    for (int part = 0; part < num_gradients_; ++part) {
      const Tensor& gradient = context->input(input++);
      if (gradient.dims() != 2 || gradient.dim_size(1) != table.width) {
        return InvalidArgument("table ", variables[0]->shape().DebugString(), " and gradient ",
                               gradient.shape().DebugString(), " differ in width");
      }
      AppendRows(gradient.flat<float>().data(), gradient.dim_size(0), table.width, &gradients);
    }
    if (gradients.size() != rows.size()) {
      return InvalidArgument("there are ", rows.size(), " ids and ", gradients.size(),
                             " gradients");
    }
    std::vector<float> sums;  // has the memory of the gradients then
    if (sums_) SumByRow(table.width, &rows, &gradients, &sums);
    optimizer_.Update(h, table, rows, gradients);
    return absl::OkStatus();
  }

  static absl::Status ReadIds(const Tensor& ids, int64_t num_rows, std::vector<int64_t>* rows) {
    const int64_t count = ids.NumElements();
    if (count >= kMaxIds) return InvalidArgument("too many ids: ", count);
    const Id* first = ids.flat<Id>().data();
    for (int64_t place = 0; place < count; ++place) {
      const int64_t id = first[place];
      if (id < 0 || id >= num_rows) {
        return InvalidArgument("indices[", place, "] = ", id, " is not in [0, ", num_rows, ")");
      }
    }
    rows->assign(first, first + count);
    return absl::OkStatus();
  }

  Optimizer optimizer_;
  int num_slots_ = 0, num_hyperparameters_ = 0, num_gradients_ = 0;
  bool sums_ = false;
};

#define TPU_COLUMNS_REGISTER_FOR_IDS(Id)                                                        \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("TpuColumnsUpdate").Device(tensorflow::DEVICE_CPU).TypeConstraint<Id>("Id"),         \
      SlicesUpdateOp<Id>);                                                                      \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("TpuColumnsResourceUpdate").Device(tensorflow::DEVICE_CPU).TypeConstraint<Id>("Id"), \
      SlicesUpdateOp<Id>);
TPU_COLUMNS_REGISTER_FOR_IDS(int32_t)
TPU_COLUMNS_REGISTER_FOR_IDS(int64_t)

}  // namespace
}  // namespace tpu_columns
