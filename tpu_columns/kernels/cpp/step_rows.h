// SPDX-License-Identifier: Apache-2.0
//
// What a lookup of many tables has read in one step, for the update of these rows.

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "entries.h"
#include "op_helpers.h"
#include "ordering.h"
#include "row_gradients.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_encode_decode.h"

namespace tpu_columns {
namespace {

// What a lookup has read in one step, for the update.
class StepRows {
 public:
  StepRows(size_t num_features, const std::vector<TableRows>& tables)
      : entries(num_features), weight_tensors(num_features) {
    for (const TableRows& table : tables) tables_.push_back(std::make_unique<Table>(table));
    Reset();
  }

  int64_t num_tables() const { return tables_.size(); }

  // Prepares for another step. The memory of the last one is kept.
  void Reset() {
    for (Entries& each : entries) {
      each.weights = nullptr;
      each.has_empty_sum = false;
      each.divisors.clear();
    }
    for (Tensor& each : weight_tensors) each = Tensor();
    for (const auto& table : tables_) {
      table->is_begun = false;
      table->is_found.Reset();
    }
  }

  // Finds the distinct rows of all tables that no other thread has begun.
  void FindAll() {
    for (const auto& table : tables_) FindIfNotBegun(table.get());
  }

  // Returns the rows of a table, which some thread has found.
  const TableRows& Rows(int64_t number) {
    Table* table = tables_[number].get();
    FindIfNotBegun(table);
    table->is_found.Wait();
    return table->rows;
  }

  // Returns the features of a table, and its rows in its variable; not the rows read.
  const TableRows& Description(int64_t number) const { return tables_[number]->rows; }

  std::vector<Entries> entries;        // of each feature
  std::vector<Tensor> weight_tensors;  // memory of their weights

 private:
  struct Table {
    explicit Table(const TableRows& rows) : rows(rows) {}

    TableRows rows;
    std::atomic<bool> is_begun{false};
    Event is_found;
  };

  void FindIfNotBegun(Table* table) {
    if (table->is_begun.exchange(true)) return;
    table->rows.Find(entries);
    table->is_found.Set();
  }

  std::vector<std::unique_ptr<Table>> tables_;
};

// The `StepRows` of a lookup that no step uses. Each step would else get its memory from the system
// again, page by page, as it is freed by another thread.
class FreeStepRows : public std::enable_shared_from_this<FreeStepRows> {
 public:
  FreeStepRows(size_t num_features, const std::vector<TableRows>& tables)
      : num_features_(num_features), tables_(tables) {}

  // Returns rows for one step, which are free again when the last reference is gone.
  std::shared_ptr<StepRows> Take() {
    std::unique_ptr<StepRows> found;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        found = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!found) found = std::make_unique<StepRows>(num_features_, tables_);
    return {found.release(), [self = shared_from_this()](StepRows* rows) {
              const OpScope scope;
              rows->Reset();
              std::lock_guard<std::mutex> lock(self->mutex_);
              self->free_.emplace_back(rows);
            }};
  }

 private:
  const size_t num_features_;
  const std::vector<TableRows> tables_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StepRows>> free_;
};

// A `StepRows` as an element of a tensor; it exists within a step only.
struct StepRowsElement {
  std::shared_ptr<StepRows> rows;

  std::string TypeName() const { return "tpu_columns::StepRows"; }
  void Encode(tensorflow::VariantTensorData* /*data*/) const {}
  bool Decode(const tensorflow::VariantTensorData& /*data*/) { return false; }
};

// Finds the gradient of a feature's sums in a tensor, in `width` columns from `column` on.
inline absl::Status FindGradient(const Tensor& tensor, int64_t num_sums, int64_t column,
                                 int64_t width, Gradient* gradient) {
  const int64_t stride = tensor.dims() ? tensor.dim_size(tensor.dims() - 1) : 0;
  if (column + width > stride || tensor.NumElements() != num_sums * stride) {
    return InvalidArgument(num_sums, " sums of ", width, " columns and gradient ",
                           tensor.shape().DebugString(), " differ");
  }
  *gradient = {tensor.flat<float>().data() + column, stride};
  return absl::OkStatus();
}

// Finds the rows of a lookup in the input `rows` of an op.
inline absl::Status FindStepRows(OpKernelContext* context, StepRows** rows) {
  const Tensor* element = nullptr;
  TF_RETURN_IF_ERROR(context->input("rows", &element));
  if (element->dims() != 0) return InvalidArgument("rows must be a scalar");
  const auto* found = element->scalar<tensorflow::Variant>()().get<StepRowsElement>();
  if (!found) return InvalidArgument("rows must be those of TpuColumnsLookUpTables");
  *rows = found->rows.get();
  return absl::OkStatus();
}

}  // namespace
}  // namespace tpu_columns
