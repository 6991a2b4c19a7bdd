// SPDX-License-Identifier: Apache-2.0
//
// What a lookup of many tables has read in one step, for the update of these rows.

#ifndef TPU_COLUMNS_STEP_ROWS_H_
#define TPU_COLUMNS_STEP_ROWS_H_

#include <atomic>

#include "ordering.h"
#include "rows.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_encode_decode.h"

namespace tpu_columns {
namespace {

// A feature's ids of one step, as rows of its variable; those that are padding are left out.
struct Entries {
  int64_t count = 0;
  std::vector<int64_t> rows;
  std::vector<int32_t> sums;        // place of each entry's sum
  const float* weights = nullptr;   // of each entry; null: all are 1
  Tensor weight_tensor;             // has their memory
  std::vector<float> kept_weights;  // or this, if some entries are left out by weight
  bool has_empty_sum = false;       // of a safe lookup: then row 0 of the table is trained, too
  std::vector<float> divisors;      // of each sum; empty: all are 1
  int64_t num_sums = 0;

  float weight(int64_t place) const { return weights ? weights[place] : 1.0f; }
};

// Rows of one table, or of the part of it that some features read, in one step.
struct TableRows {
  std::vector<int> features;  // which read it
  int64_t begin, end;         // rows of the table in its variable
  std::vector<int64_t> distinct;
  std::vector<int32_t> index;  // of the entries of all features, and of row 0: place in `distinct`

  void Find(const std::vector<Entries>& entries) {
    std::vector<int64_t> rows;  // of all entries
    for (const int feature : features) {
      const Entries& each = entries[feature];
      rows.insert(rows.end(), each.rows.begin(), each.rows.begin() + each.count);
    }
    const auto has_empty_sum = [&](int feature) { return entries[feature].has_empty_sum; };
    if (std::any_of(features.begin(), features.end(), has_empty_sum)) rows.push_back(begin);
    const int64_t count = rows.size();
    index.resize(count);
    if (end - begin <= 4 * count) {
      FindDistinctInRange(rows.data(), count, begin, end, index.data(), &distinct);
    } else {
      FindDistinct(rows.data(), count, index.data(), &distinct);
    }
  }
};

// What a lookup has read in one step, for the update.
class StepRows {
 public:
  StepRows(size_t num_features, const std::vector<TableRows>& tables) : entries(num_features) {
    for (const TableRows& table : tables) {
      tables_.emplace_back(std::make_unique<Table>());
      tables_.back()->rows = table;
    }
    Reset();
  }

  int64_t num_tables() const { return tables_.size(); }

  // Prepares for another step. The memory of the last one is kept.
  void Reset() {
    for (Entries& each : entries) {
      each.weights = nullptr;
      each.weight_tensor = Tensor();
      each.has_empty_sum = false;
      each.divisors.clear();
    }
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

  std::vector<Entries> entries;  // of each feature

 private:
  struct Table {
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
  void Encode(tensorflow::VariantTensorData*) const {}
  bool Decode(tensorflow::VariantTensorData) { return false; }
};

// Finds the rows of a lookup in the input `rows` of an op.
inline Status FindStepRows(OpKernelContext* context, StepRows** rows) {
  const Tensor* element;
  TF_RETURN_IF_ERROR(context->input("rows", &element));
  if (element->dims() != 0) return InvalidArgument("rows must be a scalar");
  const auto* found = element->scalar<tensorflow::Variant>()().get<StepRowsElement>();
  if (!found) return InvalidArgument("rows must be those of TpuColumnsLookUpTables");
  *rows = found->rows.get();
  return tensorflow::Status();
}

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_STEP_ROWS_H_
