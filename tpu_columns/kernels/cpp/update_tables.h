// SPDX-License-Identifier: Apache-2.0
//
// Op that sums gradients by row, and updates rows of many tables at once; see
// estimator_spec/core/cores/native_tables.py.
//
// It reads gradients where a layer's gradient has them. Its results don't depend on the number of
// threads, as those of the lookup.

#ifndef TPU_COLUMNS_UPDATE_TABLES_H_
#define TPU_COLUMNS_UPDATE_TABLES_H_

#include "row_gradients.h"
#include "update_rules.h"

namespace tpu_columns {
namespace {

REGISTER_OP("TpuColumnsUpdateTables")
    .Input("variables: num_variables * resource")
    .Input("slots: num_slots * resource")
    .Input("rates: num_variables * float")
    .Input("factor: float")
    .Input("step: float")
    .Input("gradients: num_gradients * float")
    .Input("rows: variant")
    .Attr("num_variables: int >= 1")
    .Attr("num_slots: int >= 0")
    .Attr("num_gradients: int >= 1")
    .Attr("feature: list(int)")
    .Attr("variable: list(int)")
    .Attr("column: list(int)")
    .Attr("rule: string")
    .Attr("constants: list(float)")
    .Attr("limits: list(float)")
    .Attr("decay_has_rate: bool")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Sums the gradients of rows of tables, and updates rows and slots in place.

slots: those of each variable, in the rule's order.
rates: learning rate of each variable.
factor: by which gradients are multiplied.
step: the global step.
gradients: of the sums of each feature, in columns from `column` on.
rows: of the lookup.
feature: number of each feature in the lookup.
variable: number of the variable that has its table.
rule: name in `kRules`.
constants: its hyperparameters but the first, which is the rate.
limits: none, or least and largest gradient, weight decay, least and largest weight.
decay_has_rate: whether the weight decay is multiplied by the rate.
)doc");

class UpdateTablesOp : public OpKernel {
 public:
  explicit UpdateTablesOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string rule;
    int num_slots, num_gradients;
    OP_REQUIRES_OK(context, context->GetAttr("rule", &rule));
    OP_REQUIRES_OK(context, context->GetAttr("num_variables", &num_variables_));
    OP_REQUIRES_OK(context, context->GetAttr("num_slots", &num_slots));
    OP_REQUIRES_OK(context, context->GetAttr("num_gradients", &num_gradients));
    OP_REQUIRES_OK(context, context->GetAttr("feature", &feature_));
    OP_REQUIRES_OK(context, context->GetAttr("variable", &variable_));
    OP_REQUIRES_OK(context, context->GetAttr("column", &column_));
    rule_ = FindRule(rule);
    OP_REQUIRES(context, rule_ != nullptr, InvalidArgument("there is no rule ", rule));
    OP_REQUIRES_OK(context, ReadConstants(context));
    OP_REQUIRES(context,
                num_slots == static_cast<int64_t>(rule_->num_slots) * num_variables_,
                InvalidArgument("rule ", rule, " and ", num_slots, " slots of ", num_variables_,
                                " variables"));
    OP_REQUIRES_OK(context, CheckSizes({&feature_, &variable_, &column_}, num_gradients));
    for (size_t place = 0; place < feature_.size(); ++place) {
      OP_REQUIRES(context,
                  variable_[place] >= 0 && variable_[place] < num_variables_ &&
                      column_[place] >= 0 && column_[place] < int64_t{1} << 61,
                  InvalidArgument("attributes of feature ", place, " are out of range"));
    }
  }

  void Compute(OpKernelContext* context) override {
    const OpScope scope;
    LockedVariables variables;
    const int count = num_variables_ * (1 + rule_->num_slots);
    if (!variables.Lock(context, 0, count, /*to_write=*/true)) return;
    for (int place = 0; place < num_variables_; ++place) {
      const Tensor& table = variables[place];
      OP_REQUIRES(context, table.dims() == 2, InvalidArgument("a table must be a matrix"));
      for (int slot = 0; slot < rule_->num_slots; ++slot) {
        OP_REQUIRES(context, variables[SlotOf(place, slot)].shape() == table.shape(),
                    InvalidArgument("var and accum do not have the same shape: ",
                                    table.shape().DebugString()));
      }
    }
    OpInputList rates, gradients;
    OP_REQUIRES_OK(context, context->input_list("rates", &rates));
    OP_REQUIRES_OK(context, context->input_list("gradients", &gradients));
    const Tensor *factor, *step;
    OP_REQUIRES_OK(context, context->input("factor", &factor));
    OP_REQUIRES_OK(context, context->input("step", &step));
    OP_REQUIRES(context, factor->NumElements() == 1 && step->NumElements() == 1,
                InvalidArgument("factor and step must be scalars"));
    StepRows* found;
    OP_REQUIRES_OK(context, FindStepRows(context, &found));
    StepRows& rows = *found;
    // Places of the features of each table among ours: of those that have a gradient.
    std::vector<int64_t> place_of_feature(rows.entries.size(), -1);
    int64_t num_ids = 0;
    for (size_t place = 0; place < feature_.size(); ++place) {
      const int64_t feature = feature_[place];
      OP_REQUIRES(context, feature >= 0 && feature < static_cast<int64_t>(rows.entries.size()),
                  InvalidArgument("the lookup has no feature ", feature));
      place_of_feature[feature] = place;
      num_ids += rows.entries[feature].count;
    }
    const bool are_many = AreMany(num_ids, variables.num_bytes());
    OP_REQUIRES_OK(context, ForEach(context, rows.num_tables(), are_many, [&](int64_t number) {
      const TableRows& table = rows.Description(number);
      TableRows trained{{}, table.begin, table.end};
      std::vector<int64_t> places;
      for (const int feature : table.features) {
        if (place_of_feature[feature] < 0) continue;
        trained.features.push_back(feature);
        places.push_back(place_of_feature[feature]);
      }
      if (places.empty()) return tensorflow::Status();
      const int64_t variable = variable_[places[0]];
      if (rates[variable].NumElements() != 1) return InvalidArgument("rates must be scalars");
      Hyperparameters h = constants_;
      h.rate = rates[variable].flat<float>()(0);
      h.step = step->flat<float>()(0);
      std::array<float*, kMaxSlots> slots{};
      for (int slot = 0; slot < rule_->num_slots; ++slot) {
        slots[slot] = variables[SlotOf(variable, slot)].flat<float>().data();
      }
      const bool are_all = places.size() == table.features.size();
      if (!are_all) trained.Find(rows.entries);
      return Update(are_all ? rows.Rows(number) : trained, rows.entries, places, gradients,
                    factor->flat<float>()(0), h, limits_.At(h.rate), &variables[variable], slots);
    }));
  }

 private:
  // Returns the place of a slot among the variables.
  int SlotOf(int variable, int slot) const {
    return num_variables_ + variable * rule_->num_slots + slot;
  }

  Status ReadConstants(OpKernelConstruction* context) {
    std::vector<float> constants;
    TF_RETURN_IF_ERROR(context->GetAttr("constants", &constants));
    if (static_cast<int>(constants.size()) + 1 != rule_->num_hyperparameters()) {
      return InvalidArgument("rule ", rule_->name, " with ", constants.size(), " constants");
    }
    for (size_t place = 0; place < constants.size(); ++place) {
      constants_.*rule_->hyperparameters[place + 1] = constants[place];
    }
    constants_.SetRests();
    return limits_.Read(context);
  }

  // Updates the rows of a table that some features look up.
  Status Update(const TableRows& rows, const std::vector<Entries>& entries,
                const std::vector<int64_t>& places, const OpInputList& gradients, float factor,
                const Hyperparameters& h, const Limits& limits, Tensor* table,
                const std::array<float*, kMaxSlots>& slots) {
    const int64_t width = table->dim_size(1);
    if (rows.end > table->dim_size(0)) {
      return InvalidArgument("table ", table->shape().DebugString(), " has less than ", rows.end,
                             " rows");
    }
    const int64_t num_rows = rows.distinct.size();
    std::vector<float> sums(num_rows * width);
    TF_RETURN_IF_ERROR(SumGradients(rows, entries, places, gradients, column_, width, sums.data()));
    if (factor != 1.0f) {
      for (float& sum : sums) sum *= factor;
    }
    std::vector<const float*> gradients_of_rows(num_rows);
    for (int64_t row = 0; row < num_rows; ++row) gradients_of_rows[row] = sums.data() + row * width;
    UpdateRows(rule_->rule, h, limits, table->flat<float>().data(), slots, rows.distinct,
               gradients_of_rows, width);
    return tensorflow::Status();
  }

  std::vector<int64_t> feature_, variable_, column_;
  const RuleArguments* rule_ = nullptr;
  Hyperparameters constants_;
  Limits limits_;
  int num_variables_;
};

REGISTER_KERNEL_BUILDER(Name("TpuColumnsUpdateTables").Device(tensorflow::DEVICE_CPU),
                        UpdateTablesOp);

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_UPDATE_TABLES_H_
