// SPDX-License-Identifier: Apache-2.0
//
// Op that updates many tables at once by the gradients of a lookup, which it sums by row; see
// estimator_spec/core/cores/native_tables.py.
//
// It reads gradients where a layer's gradient has them. Its results don't depend on the number of
// threads, as those of the lookup.

#pragma once

#include <cstdint>
#include <vector>

#include "op_helpers.h"
#include "optimizer.h"
#include "ordering.h"
#include "row_gradients.h"
#include "rows.h"
#include "shared_work.h"
#include "step_rows.h"

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

class LookupUpdateOp : public OpKernel {
 public:
  explicit LookupUpdateOp(OpKernelConstruction* context) : OpKernel(context) {
    int num_gradients = 0;
    OP_REQUIRES_OK(context, context->GetAttr("num_variables", &num_tables_));
    OP_REQUIRES_OK(context, context->GetAttr("num_slots", &num_slots_));
    OP_REQUIRES_OK(context, context->GetAttr("num_gradients", &num_gradients));
    OP_REQUIRES_OK(context, context->GetAttr("feature", &feature_));
    OP_REQUIRES_OK(context, context->GetAttr("variable", &table_));
    OP_REQUIRES_OK(context, context->GetAttr("column", &column_));
    OP_REQUIRES_OK(context, context->GetAttr("constants", &constants_));
    OP_REQUIRES_OK(context,
                   optimizer_.Read(context, num_tables_, num_slots_, constants_.size() + 1));
    OP_REQUIRES_OK(context,
                   CheckSizes({feature_.size(), table_.size(), column_.size()}, num_gradients));
    for (size_t place = 0; place < feature_.size(); ++place) {
      OP_REQUIRES(context,
                  table_[place] >= 0 && table_[place] < num_tables_ && IsCount(column_[place]),
                  InvalidArgument("attributes of feature ", place, " are out of range"));
    }
  }

  void Compute(OpKernelContext* context) override {
    const OpScope scope;
    LockedVariables variables;
    OP_REQUIRES_OK(context, variables.Lock(context, num_tables_ + num_slots_, /*to_write=*/true));
    const std::vector<Tensor*> values = variables.tensors();
    Step step;
    OP_REQUIRES_OK(context, optimizer_.FindTables(values, num_tables_, &step.tables));
    OP_REQUIRES_OK(context, Read(context, &step));
    int64_t num_ids = 0;
    for (const int feature : feature_) num_ids += step.rows->entries[feature].count;
    const bool are_many = AreMany(num_ids, values);
    OP_REQUIRES_OK(context, ForEach(context, step.rows->num_tables(), are_many,
                                    [&](int64_t number) { return UpdateTable(step, number); }));
  }

 private:
  // What an op is given in a step.
  struct Step {
    std::vector<Table> tables;
    OpInputList gradients;
    std::vector<float> rates;  // of each table
    float factor = 1, number = 0;
    StepRows* rows = nullptr;
    std::vector<int> place_of_feature;  // place of its gradient, or -1
  };

  absl::Status Read(OpKernelContext* context, Step* step) const {
    OpInputList rates;
    const Tensor *factor = nullptr, *number = nullptr;
    TF_RETURN_IF_ERROR(context->input_list("rates", &rates));
    TF_RETURN_IF_ERROR(context->input_list("gradients", &step->gradients));
    TF_RETURN_IF_ERROR(context->input("factor", &factor));
    TF_RETURN_IF_ERROR(context->input("step", &number));
    TF_RETURN_IF_ERROR(ReadScalar(*factor, "factor", &step->factor));
    TF_RETURN_IF_ERROR(ReadScalar(*number, "step", &step->number));
    step->rates.resize(num_tables_);
    for (int table = 0; table < num_tables_; ++table) {
      TF_RETURN_IF_ERROR(ReadScalar(rates[table], "a rate", &step->rates[table]));
    }
    TF_RETURN_IF_ERROR(FindStepRows(context, &step->rows));
    const int num_features = static_cast<int>(step->rows->entries.size());
    step->place_of_feature.assign(num_features, -1);
    for (int place = 0; place < step->gradients.size(); ++place) {
      const int feature = feature_[place];
      if (feature < 0 || feature >= num_features) {
        return InvalidArgument("the lookup has no feature ", feature);
      }
      step->place_of_feature[feature] = place;
    }
    return absl::OkStatus();
  }

  // Updates the rows that were read of a table of the lookup.
  absl::Status UpdateTable(const Step& step, int64_t number) const {
    const TableRows& all = step.rows->Description(number);
    TableRows trained(all.begin, all.end);  // those of features that have a gradient
    std::vector<int> places;
    for (const int feature : all.features) {
      if (step.place_of_feature[feature] < 0) continue;
      trained.features.push_back(feature);
      places.push_back(step.place_of_feature[feature]);
    }
    if (places.empty()) return absl::OkStatus();
    const Table& table = step.tables[table_[places[0]]];
    if (all.end > table.num_rows) {
      return InvalidArgument("a table has ", table.num_rows, " rows, and not ", all.end);
    }
    const bool are_all = places.size() == all.features.size();
    if (!are_all) trained.Find(step.rows->entries);
    const TableRows& rows = are_all ? step.rows->Rows(number) : trained;
    std::vector<Gradient> gradients(places.size());
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t num_sums = step.rows->entries[rows.features[i]].num_sums;
      TF_RETURN_IF_ERROR(FindGradient(step.gradients[places[i]], num_sums, column_[places[i]],
                                      table.width, &gradients[i]));
    }
    const int64_t num_rows = rows.distinct.size();
    std::vector<float> sums(num_rows * table.width);
    SumGradients(rows, step.rows->entries, gradients, table.width, sums.data());
    if (step.factor != 1.0f) {
      for (float& sum : sums) sum *= step.factor;
    }
    std::vector<const float*> gradients_of_rows;
    gradients_of_rows.reserve(num_rows);
    AppendRows(sums.data(), num_rows, table.width, &gradients_of_rows);
    Hyperparameters h;
    TF_RETURN_IF_ERROR(
        optimizer_.SetHyperparameters(step.rates[table_[places[0]]], constants_, &h));
    h.step = step.number;
    optimizer_.Update(h, table, rows.distinct, gradients_of_rows);
    return absl::OkStatus();
  }

  Optimizer optimizer_;
  int num_tables_ = 0, num_slots_ = 0;
  std::vector<int> feature_, table_;  // of each gradient
  std::vector<int64_t> column_;
  std::vector<float> constants_;
};

REGISTER_KERNEL_BUILDER(Name("TpuColumnsUpdateTables").Device(tensorflow::DEVICE_CPU),
                        LookupUpdateOp);

}  // namespace
}  // namespace tpu_columns
