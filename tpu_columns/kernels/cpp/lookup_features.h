// SPDX-License-Identifier: Apache-2.0
//
// Features of a lookup of many tables, and how their ids of a step are read.
//
// A feature has ids of one table, dense or sparse. A table is a range of rows of a variable.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "entries.h"
#include "op_helpers.h"
#include "rows.h"
#include "step_rows.h"

namespace tpu_columns {
namespace {

// How the entries of a sum are combined; numbers as the attribute `combiner` has them.
enum Combiner { kSum, kMean, kSqrtN };

// Sums are fewer: their places are 32-bit numbers.
constexpr int64_t kMaxSums = int64_t{1} << 31;

struct Feature {
  int place = 0;                   // among the features
  int sparse = -1, weighted = -1;  // place among those that are sparse, or have weights
  int variable = 0;                // place of its table's variable
  int safe = 0;                    // 0: false
  int64_t first_row = 0, num_rows = 0, num_shards = 1, combiner = kSum, num_steps = 0, column = 0;
  std::string column_name, key, weight_key;  // as messages have them

  // Returns whether some weights may be left out.
  bool drops_weights() const { return safe && weighted >= 0; }

  absl::Status IdError(int64_t id) const {
    return InvalidArgument("Column ", column_name, ": id ", id, " of feature ", key,
                           " is outside of the vocabulary, whose size is ", num_rows,
                           " (valid: 0 to ", num_rows - 1, "). Correct the input, give the ",
                           "categorical column a default_value, or enlarge its num_buckets.");
  }

  absl::Status WeightsError() const {
    const std::string weights =
        weight_key == "''" ? "weights" : "its weights, feature " + weight_key + ",";
    return InvalidArgument("Column ", column_name, ": feature ", key,
                           " must have a weight for each id, but its ids and ", weights,
                           " differ in number. Dense weights of 0 count as missing, as dense ids ",
                           "of -1 do: give no id the weight 0, or make ids and weights sparse.");
  }

  // Returns the number of sums of a row of ids.
  int64_t steps() const { return std::max<int64_t>(num_steps, 1); }

  // The layout of tpu_columns.partition.RowPartition: the first `num_rows` % `num_shards` shards
  // have a row more than the others.
  int64_t row(int64_t id) const {
    if (num_shards == 1) return first_row + id;
    const int64_t shard = id % num_shards, num_larger = num_rows % num_shards;
    const int64_t start = shard * (num_rows / num_shards) + std::min(shard, num_larger);
    return first_row + start + id / num_shards;
  }
};

// The features of a lookup and, in a step, their inputs.
class Features {
 public:
  explicit Features(OpKernelConstruction* context) {
    int num_variables = 0, num_tables = 0, num_sparse_inputs = 0, num_weighted_inputs = 0;
    tensorflow::DataTypeVector dtypes;
    OP_REQUIRES_OK(context, context->GetAttr("num_variables", &num_variables));
    OP_REQUIRES_OK(context, context->GetAttr("num_tables", &num_tables));
    OP_REQUIRES_OK(context, context->GetAttr("num_sparse", &num_sparse_inputs));
    OP_REQUIRES_OK(context, context->GetAttr("num_weighted", &num_weighted_inputs));
    OP_REQUIRES_OK(context, context->GetAttr("Ids", &dtypes));
    all.resize(dtypes.size());
    OP_REQUIRES_OK(context, ReadEach(context, "variable", &Feature::variable));
    OP_REQUIRES_OK(context, ReadEach(context, "first_row", &Feature::first_row));
    OP_REQUIRES_OK(context, ReadEach(context, "num_rows", &Feature::num_rows));
    OP_REQUIRES_OK(context, ReadEach(context, "num_shards", &Feature::num_shards));
    OP_REQUIRES_OK(context, ReadEach(context, "safe", &Feature::safe));
    OP_REQUIRES_OK(context, ReadEach(context, "column_name", &Feature::column_name));
    OP_REQUIRES_OK(context, ReadEach(context, "key", &Feature::key));
    OP_REQUIRES_OK(context, ReadEach(context, "weight_key", &Feature::weight_key));
    OP_REQUIRES_OK(context, ReadEach(context, "combiner", &Feature::combiner));
    OP_REQUIRES_OK(context, ReadEach(context, "num_steps", &Feature::num_steps));
    OP_REQUIRES_OK(context, ReadEach(context, "column", &Feature::column));
    OP_REQUIRES_OK(context, ReadEach(context, "sparse", &Feature::sparse));
    OP_REQUIRES_OK(context, ReadEach(context, "weighted", &Feature::weighted));
    int num_sparse = 0, num_weighted = 0;
    for (size_t place = 0; place < all.size(); ++place) {
      Feature& each = all[place];
      each.place = static_cast<int>(place);
      each.sparse = each.sparse != 0 ? num_sparse++ : -1;
      each.weighted = each.weighted != 0 ? num_weighted++ : -1;
      OP_REQUIRES(context,
                  each.variable >= 0 && each.variable - num_variables < num_tables &&
                      IsCount(each.first_row) && IsCount(each.num_rows) && each.num_shards >= 1 &&
                      each.num_steps >= 0 && each.num_steps < kMaxSums && IsCount(each.column) &&
                      each.combiner >= kSum && each.combiner <= kSqrtN &&
                      !(each.num_steps && (each.weighted >= 0 || each.safe)),
                  InvalidArgument("attributes of feature ", place, " are out of range"));
    }
    OP_REQUIRES(
        context, num_sparse == num_sparse_inputs && num_weighted == num_weighted_inputs,
        InvalidArgument("attributes and inputs differ: ", num_sparse, " sparse features and ",
                        num_sparse_inputs, " inputs, ", num_weighted, " features with weights and ",
                        num_weighted_inputs, " inputs"));
    // Features of one table are in one unit: no row is in two of them.
    for (const Feature& feature : all) {
      auto table = std::find_if(tables.begin(), tables.end(), [&](const TableRows& each) {
        return IsOfTable(feature, all[each.features[0]]);
      });
      if (table == tables.end()) {
        table = tables.emplace(table, feature.first_row, feature.first_row);
      }
      table->features.push_back(feature.place);
      table->end = std::max(table->end, feature.first_row + feature.num_rows);
    }
    OP_REQUIRES_OK(context, CheckDisjoint());
  }

  // Sets the number of sums of a feature.
  absl::Status CountSums(OpKernelContext* context, const Feature& feature,
                         int64_t* num_sums) const {
    OpInputList ids, shapes;
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->input_list("shapes", &shapes));
    const Tensor& values = ids[feature.place];
    int64_t num_rows = 0;
    if (feature.sparse < 0) {
      if (values.dims() != 2) return InvalidArgument("dense ids must be a matrix");
      num_rows = values.dim_size(0);
    } else {
      const Tensor& shape = shapes[feature.sparse];
      if (values.dims() != 1 || shape.NumElements() < 1 || shape.flat<int64_t>()(0) < 0) {
        return InvalidArgument("sparse ids must be a vector, and their shape not negative");
      }
      num_rows = shape.flat<int64_t>()(0);
    }
    if (num_rows >= kMaxSums || num_rows * feature.steps() >= kMaxSums) {
      return InvalidArgument("too many sums: ", num_rows, " rows of ", feature.steps(), " steps");
    }
    *num_sums = num_rows * feature.steps();
    return absl::OkStatus();
  }

  // Reads the ids of a feature, and sets its entries.
  absl::Status Read(OpKernelContext* context, const Feature& feature, StepRows* rows) const {
    Entries* entries = &rows->entries[feature.place];
    OpInputList ids, indices, weights;
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->input_list("indices", &indices));
    TF_RETURN_IF_ERROR(context->input_list("weights", &weights));
    TF_RETURN_IF_ERROR(CountSums(context, feature, &entries->num_sums));
    const Tensor& values = ids[feature.place];
    const bool is_sparse = feature.sparse >= 0;
    const int64_t count = values.NumElements();
    const int64_t width = is_sparse ? 0 : values.dim_size(1);  // ids of each row, if they are dense
    if (count >= kMaxIds) return InvalidArgument("too many ids: ", count);
    const Tensor* places = nullptr;
    if (is_sparse) {
      places = &indices[feature.sparse];
      if (places->dims() != 2 || places->dim_size(0) != count ||
          places->dim_size(1) < (feature.num_steps ? 2 : 1)) {
        return InvalidArgument("there are ", count, " ids, and indices of the shape ",
                               places->shape().DebugString());
      }
    }
    if (feature.weighted >= 0) {
      const Tensor& found = weights[feature.weighted];
      if (found.NumElements() != count) return feature.WeightsError();
      rows->weight_tensors[feature.place] = found;
      entries->weights = found.flat<float>().data();
    }
    entries->rows.resize(count);
    entries->sums.resize(count);
    if (feature.drops_weights()) entries->kept_weights.resize(count);
    const auto read = [&](const auto* values) {
      if (feature.safe) return ReadIds<false, true>(feature, values, count, width, places, entries);
      return feature.num_steps
                 ? ReadIds<true, false>(feature, values, count, width, places, entries)
                 : ReadIds<false, false>(feature, values, count, width, places, entries);
    };
    TF_RETURN_IF_ERROR(values.dtype() == tensorflow::DT_INT64
                           ? read(values.flat<int64_t>().data())
                           : read(values.flat<int32_t>().data()));
    if (feature.drops_weights()) entries->weights = entries->kept_weights.data();
    if (feature.safe) FindEmptySums(is_sparse ? 0 : width, entries);
    const bool has_single_ids = !is_sparse && (width == 1 || feature.num_steps);
    if (feature.combiner != kSum && !has_single_ids) SetDivisors(feature, entries);
    return absl::OkStatus();
  }

  std::vector<Feature> all;
  std::vector<TableRows> tables;  // without rows

 private:
  // Sets a member of each feature to its element of an attribute.
  template <typename Value>
  absl::Status ReadEach(OpKernelConstruction* context, const char* name, Value Feature::* member) {
    std::vector<Value> values;
    TF_RETURN_IF_ERROR(context->GetAttr(name, &values));
    TF_RETURN_IF_ERROR(CheckSizes({values.size()}, all.size()));
    for (size_t place = 0; place < all.size(); ++place) all[place].*member = values[place];
    return absl::OkStatus();
  }

  // Checks that no two threads get the same row.
  absl::Status CheckDisjoint() const {
    std::vector<std::array<int64_t, 3>> ranges;  // variable, first row, end
    for (const TableRows& table : tables) {
      if (table.begin == table.end) continue;
      ranges.push_back({all[table.features[0]].variable, table.begin, table.end});
    }
    std::sort(ranges.begin(), ranges.end());
    for (size_t place = 1; place < ranges.size(); ++place) {
      const auto &last = ranges[place - 1], &next = ranges[place];
      if (last[0] == next[0] && last[2] > next[1]) {
        return InvalidArgument("two tables have row ", next[1], " of variable ", next[0]);
      }
    }
    return absl::OkStatus();
  }

  static bool IsOfTable(const Feature& feature, const Feature& other) {
    return feature.variable == other.variable && feature.first_row == other.first_row;
  }

  // Reads dense ids, `width` of each row, or sparse ones, whose indices are `places`.
  template <bool kHasSteps, bool kIsSafe, typename Id>
  absl::Status ReadIds(const Feature& feature, const Id* ids, int64_t count, int64_t width,
                       const Tensor* places, Entries* entries) const {
    const int64_t* indices = places ? places->flat<int64_t>().data() : nullptr;
    const int64_t rank = places ? places->dim_size(1) : 0;
    const int64_t num_rows = entries->num_sums / feature.steps();
    int64_t* rows = entries->rows.data();
    int32_t* sums = entries->sums.data();
    const float* weights = feature.drops_weights() ? entries->weights : nullptr;
    const bool needs_weight = feature.combiner != kSum;
    float* kept_weights = entries->kept_weights.data();
    int64_t found = 0, row = 0, end_of_row = width;
    for (int64_t place = 0; place < count; ++place) {
      const int64_t id = ids[place];
      if (places) {
        row = indices[place * rank];
        if (row < 0 || row >= num_rows) {
          return InvalidArgument("index ", row, " of a sparse id is not in [0, ", num_rows, ")");
        }
      } else if (place == end_of_row) {
        end_of_row += width;
        ++row;
      }
      int64_t sum = row;
      if constexpr (kHasSteps) {
        const int64_t step = places ? indices[place * rank + 1] : place - (end_of_row - width);
        if (step < 0 || step >= feature.num_steps) continue;
        sum = row * feature.num_steps + step;
      }
      const bool is_padding = kIsSafe ? id < 0 || (weights && needs_weight && !(weights[place] > 0))
                                      : !places && id == 0;
      if ((id < 0 || id >= feature.num_rows) && !is_padding) return feature.IdError(id);
      // No branch: processors guess wrong where padding is.
      rows[found] = feature.row(id);
      sums[found] = static_cast<int32_t>(sum);
      if (kIsSafe && weights) kept_weights[found] = weights[place];
      found += !is_padding;
    }
    entries->count = found;
    return absl::OkStatus();
  }

  // Finds out whether a sum has no entry. `width` is the number of ids of each row, or 0.
  static void FindEmptySums(int64_t width, Entries* entries) {
    if (width > 0 && entries->count == entries->num_sums * width) return;
    std::vector<char> has_entry(entries->num_sums, 0);
    for (int64_t place = 0; place < entries->count; ++place) has_entry[entries->sums[place]] = 1;
    entries->has_empty_sum =
        !std::all_of(has_entry.begin(), has_entry.end(), [](char has) { return has; });
  }

  static void SetDivisors(const Feature& feature, Entries* entries) {
    entries->divisors.assign(entries->num_sums, 0.0f);
    for (int64_t place = 0; place < entries->count; ++place) {
      const float weight = entries->weight(place);
      entries->divisors[entries->sums[place]] +=
          feature.combiner == kSqrtN ? weight * weight : weight;
    }
    if (feature.combiner == kSqrtN) {
      for (float& divisor : entries->divisors) divisor = std::sqrt(divisor);
    }
    // Sums without ids are zero already.
    const auto changes_nothing = [&](float divisor) {
      return divisor == 1.0f || (divisor == 0.0f && !entries->weights);
    };
    if (std::all_of(entries->divisors.begin(), entries->divisors.end(), changes_nothing)) {
      entries->divisors.clear();
    }
  }
};

}  // namespace
}  // namespace tpu_columns
