// SPDX-License-Identifier: Apache-2.0
//
// Op that replaces an optimizer's update of one table; see estimator_spec/core/updates/native_ops.py.

#ifndef TPU_COLUMNS_UPDATE_TABLE_H_
#define TPU_COLUMNS_UPDATE_TABLE_H_

#include "update_rules.h"

namespace tpu_columns {
namespace {

#define TPU_COLUMNS_UPDATE                                                       \
      .Input("hyperparameters: num_hyperparameters * float")                     \
      .Input("ids: Id")                                                         \
      .Input("gradients: num_gradients * float")                                \
      .Attr("num_slots: int >= 0")                                              \
      .Attr("num_hyperparameters: int >= 1")                                    \
      .Attr("num_gradients: int >= 1")                                          \
      .Attr("Id: {int32, int64}")                                               \
      .Attr("rule: string")                                                     \
      .Attr("sums: bool")                                                       \
      .Attr("limits: list(float) = []")                                         \
      .Attr("decay_has_rate: bool = false")                                     \
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

ids: rows, [U]; distinct, unless `sums`.
gradients: of those rows, [U, D] in all: one or several tensors, whose rows follow each other.
sums: whether gradients of equal ids are summed, in their order.
rule: name in `kRules`; slots and hyperparameters are in its order.
limits, decay_has_rate: as for TpuColumnsUpdateTables.
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
    std::string name;
    OP_REQUIRES_OK(context, context->GetAttr("rule", &name));
    OP_REQUIRES_OK(context, limits_.Read(context));
    rule_ = FindRule(name);
    OP_REQUIRES(context, rule_ != nullptr, InvalidArgument("there is no rule ", name));
    const int hyperparameters = rule_->num_hyperparameters();
    OP_REQUIRES(context,
                num_slots_ == rule_->num_slots && num_hyperparameters_ == hyperparameters,
                InvalidArgument("rule ", name, " takes ", rule_->num_slots, " slots and ",
                                hyperparameters, " hyperparameters"));
  }

  void Compute(OpKernelContext* context) override {
    const OpScope scope;
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
    for (int place = 0; place < num_hyperparameters_; ++place) {
      const Tensor& value = context->input(1 + num_slots_ + place);
      if (value.NumElements() != 1) {
        context->SetStatus(InvalidArgument("hyperparameters must be scalars"));
        return false;
      }
      h->*rule_->hyperparameters[place] = value.flat<float>()(0);
    }
    h->SetRests();
    const bool is_ftrl = rule_->rule == Rule::kFtrl || rule_->rule == Rule::kFtrlV2;
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
    const Id* ids = id_tensor.flat<Id>().data();
    OP_REQUIRES(context, static_cast<int64_t>(gradients.size()) == num_ids,
                InvalidArgument("there are ", num_ids, " ids and ", gradients.size(), " gradients"));
    OP_REQUIRES(context, num_ids < (int64_t{1} << 29), InvalidArgument("too many ids: ", num_ids));
    for (int64_t place = 0; place < num_ids; ++place) {
      OP_REQUIRES(context,
                  static_cast<uint64_t>(static_cast<int64_t>(ids[place])) <
                      static_cast<uint64_t>(table.dim_size(0)),
                  InvalidArgument("indices[", place, "] = ", ids[place], " is not in [0, ",
                                  table.dim_size(0), ")"));
    }
    std::vector<int64_t> rows(ids, ids + num_ids);
    std::vector<float> sums;
    if (sums_) {
      std::vector<int64_t> distinct;
      std::vector<int32_t> index(num_ids);
      FindDistinct(rows.data(), num_ids, index.data(), &distinct);
      rows = std::move(distinct);
      sums.assign(rows.size() * width, 0.0f);
      for (int64_t place = 0; place < num_ids; ++place) {
        AddScaled(sums.data() + index[place] * width, gradients[place], 1.0f, width);
      }
      gradients.resize(rows.size());
      for (size_t row = 0; row < rows.size(); ++row) gradients[row] = sums.data() + row * width;
    }
    std::array<float*, kMaxSlots> slots{};
    for (int slot = 0; slot < num_slots_; ++slot) slots[slot] = variables[slot + 1].data;
    UpdateRows(rule_->rule, h, limits_.At(h.rate), variables[0].data, slots, rows, gradients,
               width);
  }

  const RuleArguments* rule_ = nullptr;
  Limits limits_;
  int num_slots_, num_hyperparameters_, num_gradients_;
  bool sums_;
};

#define TPU_COLUMNS_REGISTER_FOR_IDS(Id)                                                        \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("TpuColumnsUpdate").Device(tensorflow::DEVICE_CPU).TypeConstraint<Id>("Id"),         \
      UpdateOp<Id>);                                                                            \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("TpuColumnsResourceUpdate").Device(tensorflow::DEVICE_CPU).TypeConstraint<Id>("Id"), \
      UpdateOp<Id>);
TPU_COLUMNS_REGISTER_FOR_IDS(int32_t)
TPU_COLUMNS_REGISTER_FOR_IDS(int64_t)

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_UPDATE_TABLE_H_
