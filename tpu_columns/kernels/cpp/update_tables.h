// SPDX-License-Identifier: Apache-2.0
//
// Op that sums gradients by row, and updates rows of many tables at once; see
// estimator_spec/cores/native_tables.py.
//
// It reads gradients where a layer's gradient has them. Its results don't depend on the number of
// threads, as those of the lookup.

#ifndef TPU_COLUMNS_UPDATE_TABLES_H_
#define TPU_COLUMNS_UPDATE_TABLES_H_

#include "shared_work.h"
#include "step_rows.h"

namespace tpu_columns {
namespace {

REGISTER_OP("TpuColumnsUpdateTables")
    .Input("variables: num_variables * resource")
    .Input("slots: num_slots * resource")
    .Input("rates: num_variables * float")
    .Input("factor: float")
    .Input("gradients: num_gradients * float")
    .Input("rows: variant")
    .Attr("num_variables: int >= 1")
    .Attr("num_slots: int >= 0")
    .Attr("num_gradients: int >= 1")
    .Attr("feature: list(int)")
    .Attr("variable: list(int)")
    .Attr("column: list(int)")
    .Attr("rule: {'sgd', 'adagrad_no_nan'}")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Sums the gradients of rows of tables, and updates rows and slots in place.

slots: one for each variable, or none.
rates: learning rate of each variable.
factor: by which gradients are multiplied.
gradients: of the sums of each feature, in columns from `column` on.
rows: of the lookup.
feature: number of each feature in the lookup.
variable: number of the variable that has its table.
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
    rule_ = rule == "sgd" ? Rule::kSgd : Rule::kAdagradNoNan;
    has_slots_ = rule_ != Rule::kSgd;
    OP_REQUIRES(context, num_slots == (has_slots_ ? num_variables_ : 0),
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
    LockedVariables variables;
    const int count = has_slots_ ? 2 * num_variables_ : num_variables_;
    if (!variables.Lock(context, 0, count, /*to_write=*/true)) return;
    for (int place = 0; place < num_variables_; ++place) {
      const Tensor& table = variables[place];
      OP_REQUIRES(context,
                  table.dims() == 2 &&
                      (!has_slots_ || variables[num_variables_ + place].shape() == table.shape()),
                  InvalidArgument("var and accum do not have the same shape: ",
                                  table.shape().DebugString()));
    }
    OpInputList rates, gradients;
    OP_REQUIRES_OK(context, context->input_list("rates", &rates));
    OP_REQUIRES_OK(context, context->input_list("gradients", &gradients));
    const Tensor *factor, *element;
    OP_REQUIRES_OK(context, context->input("factor", &factor));
    OP_REQUIRES(context, factor->NumElements() == 1, InvalidArgument("factor must be a scalar"));
    OP_REQUIRES_OK(context, context->input("rows", &element));
    OP_REQUIRES(context, element->dims() == 0, InvalidArgument("rows must be a scalar"));
    const auto* found = element->scalar<tensorflow::Variant>()().get<StepRowsElement>();
    OP_REQUIRES(context, found, InvalidArgument("rows must be those of TpuColumnsLookUpTables"));
    StepRows& rows = *found->rows;
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
    const bool are_many = AreMany(num_ids, variables);
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
      Hyperparameters h;
      h.rate = rates[variable].flat<float>()(0);
      const bool are_all = places.size() == table.features.size();
      if (!are_all) trained.Find(rows.entries);
      return Update(are_all ? rows.Rows(number) : trained, rows.entries, places, gradients,
                    factor->flat<float>()(0), h, &variables[variable],
                    has_slots_ ? &variables[num_variables_ + variable] : nullptr);
    }));
  }

 private:
  // Updates the rows of a table that some features look up.
  Status Update(const TableRows& rows, const std::vector<Entries>& entries,
                const std::vector<int64_t>& places, const OpInputList& gradients, float factor,
                const Hyperparameters& h, Tensor* table, Tensor* slots) {
    const int64_t width = table->dim_size(1);
    for (size_t i = 0; i < places.size(); ++i) {
      const Tensor& gradient = gradients[places[i]];
      const int64_t num_sums = entries[rows.features[i]].num_sums;
      const int64_t stride = gradient.dims() ? gradient.dim_size(gradient.dims() - 1) : 0;
      if (column_[places[i]] + width > stride || gradient.NumElements() != num_sums * stride ||
          rows.end > table->dim_size(0)) {
        return InvalidArgument("table ", table->shape().DebugString(), ", ", num_sums,
                               " sums and gradient ", gradient.shape().DebugString(), " differ");
      }
    }
    const int64_t num_rows = rows.distinct.size();
    std::vector<float> sums(num_rows * width, 0.0f);
    const int32_t* next = rows.index.data();
    for (size_t i = 0; i < places.size(); ++i) {
      const Tensor& gradient = gradients[places[i]];
      const Entries& each = entries[rows.features[i]];
      const int64_t stride = gradient.dim_size(gradient.dims() - 1);
      const float* from = gradient.flat<float>().data() + column_[places[i]];
      AddGradients(each, from, stride, width, next, sums.data());
      next += each.count;
    }
    if (factor != 1.0f) {
      for (float& sum : sums) sum *= factor;
    }
    std::vector<const float*> gradients_of_rows(num_rows);
    for (int64_t row = 0; row < num_rows; ++row) gradients_of_rows[row] = sums.data() + row * width;
    UpdateRows(rule_, h, table->flat<float>().data(),
               {slots ? slots->flat<float>().data() : nullptr}, rows.distinct, gradients_of_rows,
               width);
    return tensorflow::Status();
  }

  // Adds the gradients of one feature.
  static void AddGradients(const Entries& entries, const float* gradient, int64_t stride,
                           int64_t width, const int32_t* index, float* sums) {
    std::vector<float> divided(width);
    const bool divides = !entries.divisors.empty();
    int64_t last_sum = -1;
    for (int64_t place = 0; place < entries.count; ++place) {
      const int64_t sum = entries.sums[place];
      if (sum != last_sum) {  // entries of one sum follow each other
        last_sum = sum;
        const int64_t later = sum + kAhead;
        if (later < entries.num_sums) Prefetch(gradient + later * stride, width);
        if (divides) Divide(divided.data(), gradient + sum * stride, entries.divisors[sum], width);
      }
      const float* row = divides ? divided.data() : gradient + sum * stride;
      AddScaled(sums + index[place] * width, row, entries.weight(place), width);
    }
  }

  std::vector<int64_t> feature_, variable_, column_;
  Rule rule_;
  int num_variables_;
  bool has_slots_;
};

REGISTER_KERNEL_BUILDER(Name("TpuColumnsUpdateTables").Device(tensorflow::DEVICE_CPU),
                        UpdateTablesOp);

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_UPDATE_TABLES_H_
