// SPDX-License-Identifier: Apache-2.0
//
// The optimizer of an op that updates tables: what its attributes and inputs say, checked.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "op_helpers.h"
#include "update_rules.h"

namespace tpu_columns {
namespace {

class Optimizer {
 public:
  // Reads the attributes `rule`, `limits` and `decay_has_rate`, and checks how many slots and
  // hyperparameters the op has for a number of tables.
  absl::Status Read(OpKernelConstruction* context, int64_t num_tables, int64_t num_slots,
                    int64_t num_hyperparameters) {
    std::string name;
    std::vector<float> limits;
    TF_RETURN_IF_ERROR(context->GetAttr("rule", &name));
    TF_RETURN_IF_ERROR(context->GetAttr("limits", &limits));
    TF_RETURN_IF_ERROR(context->GetAttr("decay_has_rate", &limits_.decay_has_rate));
    rule_ = FindRule(name);
    if (rule_ == nullptr) return InvalidArgument("there is no rule ", name);
    if (num_slots != num_tables * rule_->num_slots ||
        num_hyperparameters != rule_->num_hyperparameters()) {
      return InvalidArgument("rule ", name, " takes ", rule_->num_slots, " slots of a table and ",
                             rule_->num_hyperparameters(), " hyperparameters; there are ",
                             num_slots, " slots of ", num_tables, " tables and ",
                             num_hyperparameters, " hyperparameters");
    }
    if (limits.empty()) return absl::OkStatus();
    if (limits.size() != 5) return InvalidArgument("there are ", limits.size(), " limits");
    limits_.any = true;
    limits_.least_gradient = limits[0], limits_.largest_gradient = limits[1];
    limits_.decay = limits[2];
    limits_.least_weight = limits[3], limits_.largest_weight = limits[4];
    return absl::OkStatus();
  }

  // Finds tables and their slots in the values of variables: all tables, then the slots of each.
  absl::Status FindTables(const std::vector<Tensor*>& values, int num_tables,
                          std::vector<Table>* tables) const {
    for (int place = 0; place < num_tables; ++place) {
      Tensor& value = *values[place];
      const TensorShape& shape = value.shape();
      if (shape.dims() != 2) return InvalidArgument("a table must be a matrix");
      Table table{value.flat<float>().data(), {}, shape.dim_size(0), shape.dim_size(1)};
      for (int number = 0; number < rule_->num_slots; ++number) {
        Tensor& slot = *values[num_tables + place * rule_->num_slots + number];
        if (slot.shape() != shape) {
          return InvalidArgument("var and its slots do not have the same shape: ",
                                 shape.DebugString(), ", ", slot.shape().DebugString());
        }
        table.slots[number] = slot.flat<float>().data();
      }
      tables->push_back(table);
    }
    return absl::OkStatus();
  }

  // Sets the rule's hyperparameters: the rate, and the others in the rule's order.
  absl::Status SetHyperparameters(float rate, const std::vector<float>& others,
                                  Hyperparameters* h) const {
    h->rate = rate;
    for (size_t place = 0; place < others.size(); ++place) {
      h->*rule_->hyperparameters[place + 1] = others[place];
    }
    h->SetRests();
    const bool is_ftrl = rule_->rule == Rule::kFtrl || rule_->rule == Rule::kFtrlV2;
    if (is_ftrl &&
        !(h->rate > 0 && h->l1 >= 0 && h->l2 >= 0 && h->shrinkage >= 0 && h->power <= 0)) {
      return InvalidArgument(
          "Ftrl needs lr > 0, l1 >= 0, l2 >= 0, l2_shrinkage >= 0 and lr_power <= 0; got ", h->rate,
          ", ", h->l1, ", ", h->l2, ", ", h->shrinkage, ", ", h->power);
    }
    return absl::OkStatus();
  }

  // Updates rows of a table and of its slots, each of which has a gradient.
  void Update(const Hyperparameters& h, const Table& table, const std::vector<int64_t>& rows,
              const std::vector<const float*>& gradients) const {
    UpdateRows(rule_->rule, h, limits_.At(h.rate), table, rows, gradients);
  }

 private:
  const RuleArguments* rule_ = nullptr;
  Limits limits_;
};

}  // namespace
}  // namespace tpu_columns
