// SPDX-License-Identifier: Apache-2.0
//
// Ops that look up, combine and update rows of many tables at once; see cores/native_tables.py.
//
// TpuColumnsLookUpTables reads each row where it is and adds it where a layer of the model has it:
// there are no gathered rows, no combined rows and no concatenation. TpuColumnsUpdateTables reads
// gradients in a layer's gradient. Both go through the tables in parallel, and through the ids of a
// table in order, so results don't depend on the number of threads.
//
// A feature has ids of one table, dense or sparse. A table is a range of rows of a variable.

#ifndef TPU_COLUMNS_MANY_TABLES_H_
#define TPU_COLUMNS_MANY_TABLES_H_

#include <atomic>

#include "rows.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/platform/blocking_counter.h"

namespace tpu_columns {
namespace {

using tensorflow::OpInputList;
using tensorflow::Status;

// Fewest ids for which a second thread pays: for tables that fit in a core's cache, and for larger
// ones.
constexpr int64_t kManyCachedIds = 1 << 15;
constexpr int64_t kManyIds = 1 << 13;
constexpr int64_t kCacheBytes = 1 << 20;

// Attributes with one element for each feature; `sparse` and `weighted` are 0 or 1.
//
// variable: number of the variable that has the feature's table.
// first_row, num_rows, num_shards: first row of the table in its variable, its rows, and the shards
//   in which they are in order; id i is row i / num_shards of shard i % num_shards.
// mark: an id out of range is clipped to ± `mark_limit`, then `mark` is added; the sum in the error
//   tells feature and id.
// combiner: 0 for 'sum', 1 for 'mean', 2 for 'sqrtn'.
#define TPU_COLUMNS_FEATURES                                                                    \
      .Input("ids: Ids")                                                            \
      .Input("indices: num_sparse * int64")                                         \
      .Input("shapes: num_sparse * int64")                                          \
      .Input("weights: num_weighted * float")                                       \
      .Attr("Ids: list({int32, int64}) >= 1")                                       \
      .Attr("num_variables: int >= 1")                                              \
      .Attr("num_sparse: int >= 0")                                                 \
      .Attr("num_weighted: int >= 0")                                               \
      .Attr("variable: list(int)")                                                  \
      .Attr("first_row: list(int)")                                                 \
      .Attr("num_rows: list(int)")                                                  \
      .Attr("num_shards: list(int)")                                                \
      .Attr("mark: list(int)")                                                      \
      .Attr("mark_limit: int")                                                      \
      .Attr("combiner: list(int)")                                                  \
      .Attr("sparse: list(int)")                                                    \
      .Attr("weighted: list(int)")                                                  \
      .Attr("column: list(int)")                                                    \
      .SetIsStateful()

REGISTER_OP("TpuColumnsLookUpTables")
    .Input("variables: num_variables * resource")
    .Input("others: num_others * float") TPU_COLUMNS_FEATURES
    .Output("layers: num_layers * float")
    .Attr("num_others: int >= 0")
    .Attr("num_layers: int >= 1")
    .Attr("widths: list(int)")
    .Attr("layer: list(int)")
    .Attr("layer_of_other: list(int)")
    .Attr("column_of_other: list(int)")
    .Attr("width_of_other: list(int)")
    .SetShapeFn([](InferenceContext* c) {
      std::vector<int64_t> widths;
      TF_RETURN_IF_ERROR(c->GetAttr("widths", &widths));
      for (int place = 0; place < c->num_outputs(); ++place) {
        c->set_output(place, c->Matrix(InferenceContext::kUnknownDim, widths[place]));
      }
      return tensorflow::Status();
    })
    .Doc(R"doc(
Combines rows of tables, in the columns of matrices.

ids: of each feature: a matrix whose zeros are padding, or the values of a sparse matrix.
indices, shapes: the other parts of the sparse matrices, in the order of their features.
weights: of the weighted features, which are sparse.
others: matrices to copy into layers.
layers: matrices with a row for each row of ids.
widths: numbers of columns of the layers.
layer, column: of each feature: the layer that has its sums, and the first column.
layer_of_other, column_of_other: the same of each of `others`.
width_of_other: number of columns of each of `others`.
)doc");

REGISTER_OP("TpuColumnsUpdateTables")
    .Input("variables: num_variables * resource")
    .Input("slots: num_slots * resource")
    .Input("rates: num_variables * float")
    .Input("factor: float")
    .Input("gradients: num_gradients * float") TPU_COLUMNS_FEATURES
    .Attr("num_slots: int >= 0")
    .Attr("num_gradients: int >= 1")
    .Attr("rule: {'sgd', 'adagrad_no_nan'}")
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"doc(
Sums the gradients of rows of tables, and updates rows and slots in place.

slots: one for each variable, or none.
rates: learning rate of each variable.
factor: by which gradients are multiplied.
gradients: of the sums of each feature, in columns from `column` on.
)doc");

// A feature's ids of one step, as rows of its variable; those that are padding are left out.
struct Entries {
  int64_t count = 0;
  std::unique_ptr<int64_t[]> rows;
  std::unique_ptr<int64_t[]> sums;  // place of each entry's sum
  const float* weights = nullptr;   // of each entry; null: all are 1
  std::vector<float> divisors;      // of each sum; empty: all are 1
  int64_t num_sums = 0;

  float weight(int64_t place) const { return weights ? weights[place] : 1.0f; }
};

struct Feature {
  int64_t variable, first_row, num_rows, num_shards, mark, combiner, column;
  int sparse = -1;    // number among the sparse features
  int weighted = -1;  // number among the weighted features

  // The layout of tpu_columns.partition.RowPartition: the first `num_rows` % `num_shards` shards
  // have a row more than the others.
  int64_t row(int64_t id) const {
    if (num_shards == 1) return first_row + id;
    const int64_t shard = id % num_shards, num_larger = num_rows % num_shards;
    const int64_t start = shard * (num_rows / num_shards) + std::min(shard, num_larger);
    return first_row + start + id / num_shards;
  }
};

// The features of an op and, in a step, their inputs.
class Features {
 public:
  explicit Features(OpKernelConstruction* context) {
    std::vector<int64_t> variable, first_row, num_rows, num_shards, mark, combiner, column;
    std::vector<int64_t> sparse, weighted;
    int num_variables;
    OP_REQUIRES_OK(context, context->GetAttr("num_variables", &num_variables));
    OP_REQUIRES_OK(context, context->GetAttr("variable", &variable));
    OP_REQUIRES_OK(context, context->GetAttr("first_row", &first_row));
    OP_REQUIRES_OK(context, context->GetAttr("num_rows", &num_rows));
    OP_REQUIRES_OK(context, context->GetAttr("num_shards", &num_shards));
    OP_REQUIRES_OK(context, context->GetAttr("mark", &mark));
    OP_REQUIRES_OK(context, context->GetAttr("mark_limit", &mark_limit_));
    OP_REQUIRES_OK(context, context->GetAttr("combiner", &combiner));
    OP_REQUIRES_OK(context, context->GetAttr("column", &column));
    OP_REQUIRES_OK(context, context->GetAttr("sparse", &sparse));
    OP_REQUIRES_OK(context, context->GetAttr("weighted", &weighted));
    int num_sparse = 0, num_weighted = 0;
    for (size_t place = 0; place < variable.size(); ++place) {
      Feature found{variable[place], first_row[place], num_rows[place], num_shards[place],
                    mark[place],     combiner[place],  column[place]};
      OP_REQUIRES(context,
                  found.variable >= 0 && found.variable < num_variables && found.first_row >= 0 &&
                      found.num_rows >= 0 && found.num_shards >= 1 && found.column >= 0,
                  InvalidArgument("attributes of feature ", place, " are out of range"));
      if (sparse[place]) found.sparse = num_sparse++;
      if (weighted[place]) found.weighted = num_weighted++;
      all.push_back(found);
    }
  }

  // Sets the number of sums of a feature.
  Status CountSums(OpKernelContext* context, const Feature& feature, int64_t* num_sums) const {
    OpInputList ids, shapes;
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->input_list("shapes", &shapes));
    const Tensor& values = ids[&feature - all.data()];
    if (feature.sparse < 0) {
      if (values.dims() != 2) return InvalidArgument("dense ids must be a matrix");
      *num_sums = values.dim_size(0);
      return tensorflow::Status();
    }
    const Tensor& shape = shapes[feature.sparse];
    if (values.dims() != 1 || shape.NumElements() < 1 || shape.flat<int64_t>()(0) < 0) {
      return InvalidArgument("sparse ids must be a vector, and their shape not negative");
    }
    *num_sums = shape.flat<int64_t>()(0);
    return tensorflow::Status();
  }

  // Reads the ids of a feature.
  Status Read(OpKernelContext* context, const Feature& feature, Entries* entries) const {
    OpInputList ids, indices, weights;
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->input_list("indices", &indices));
    TF_RETURN_IF_ERROR(context->input_list("weights", &weights));
    TF_RETURN_IF_ERROR(CountSums(context, feature, &entries->num_sums));
    const Tensor& values = ids[&feature - all.data()];
    const bool is_sparse = feature.sparse >= 0;
    const int64_t count = values.NumElements();
    const int64_t width = is_sparse ? 0 : values.dim_size(1);  // ids of each sum, if they are dense
    if (count >= int64_t{1} << 30) return InvalidArgument("too many ids: ", count);
    const Tensor* places = nullptr;
    if (is_sparse) {
      places = &indices[feature.sparse];
      if (places->dims() != 2 || places->dim_size(0) != count || places->dim_size(1) < 1) {
        return InvalidArgument("there are ", count, " ids, and indices of the shape ",
                               places->shape().DebugString());
      }
    }
    if (feature.weighted >= 0) {
      const Tensor& found = weights[feature.weighted];
      if (found.NumElements() != count) {
        // tpu_columns/lookup_errors.py reads this message, and that of an id out of range.
        return InvalidArgument(
            "Number of rows of a_indices does not match number of entries in a_values (mark ",
            feature.mark, ")");
      }
      entries->weights = found.flat<float>().data();
    }
    entries->rows.reset(new int64_t[count]);
    entries->sums.reset(new int64_t[count]);
    if (values.dtype() == tensorflow::DT_INT64) {
      TF_RETURN_IF_ERROR(ReadIds(feature, values.flat<int64_t>().data(), count, width, places,
                                 entries));
    } else {
      TF_RETURN_IF_ERROR(ReadIds(feature, values.flat<int32_t>().data(), count, width, places,
                                 entries));
    }
    if (feature.combiner && width != 1) SetDivisors(feature, entries);
    return tensorflow::Status();
  }

  std::vector<Feature> all;

 private:
  // Reads dense ids, `width` of each sum, or sparse ones, whose indices are `places`.
  template <typename Id>
  Status ReadIds(const Feature& feature, const Id* ids, int64_t count, int64_t width,
                 const Tensor* places, Entries* entries) const {
    const int64_t* indices = places ? places->flat<int64_t>().data() : nullptr;
    const int64_t rank = places ? places->dim_size(1) : 0;
    int64_t* rows = entries->rows.get();
    int64_t* sums = entries->sums.get();
    int64_t found = 0, sum = 0, end_of_sum = width;
    for (int64_t place = 0; place < count; ++place) {
      const int64_t id = ids[place];
      if (places) {
        sum = indices[place * rank];
        if (sum < 0 || sum >= entries->num_sums) {
          return InvalidArgument("index ", sum, " of a sparse id is not in [0, ",
                                 entries->num_sums, ")");
        }
      } else if (place == end_of_sum) {
        end_of_sum += width;
        ++sum;
      }
      const bool is_padding = !places && id == 0;
      if ((id < 0 || id >= feature.num_rows) && !is_padding) {
        const int64_t bounded = std::min(std::max(id, -mark_limit_), mark_limit_);
        return InvalidArgument("indices[", place, "] = ", bounded + feature.mark,
                               " is not in [0, ", feature.num_rows, ")");
      }
      // No branch: processors guess wrong where padding is.
      rows[found] = feature.row(id);
      sums[found] = sum;
      found += !is_padding;
    }
    entries->count = found;
    return tensorflow::Status();
  }

  static void SetDivisors(const Feature& feature, Entries* entries) {
    entries->divisors.assign(entries->num_sums, 0.0f);
    for (int64_t place = 0; place < entries->count; ++place) {
      const float weight = entries->weight(place);
      entries->divisors[entries->sums[place]] += feature.combiner == 2 ? weight * weight : weight;
    }
    if (feature.combiner == 2) {
      for (float& divisor : entries->divisors) divisor = std::sqrt(divisor);
    }
  }

  int64_t mark_limit_ = 0;
};

// Calls `work` for 0 to `count` - 1, in parallel if there are enough ids; returns the first failure.
//
// Each thread begins with a part of its own, the same in every op and step: rows that it has read or
// written before may still be in its core's cache. Then it helps with the parts of the others.
template <typename Work>
Status ForEach(OpKernelContext* context, int64_t count, LockedVariables& variables,
               const Work& work) {
  std::vector<Status> statuses(count);
  OpInputList ids;
  TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
  int64_t num_ids = 0;
  for (const Tensor& each : ids) num_ids += each.NumElements();
  const auto* workers = context->device()->tensorflow_cpu_worker_threads();
  const int64_t num_parts = std::min<int64_t>(workers->num_threads, count);
  const int64_t many = variables.num_bytes() > kCacheBytes ? kManyIds : kManyCachedIds;
  if (num_parts <= 1 || num_ids < many) {
    for (int64_t place = 0; place < count; ++place) statuses[place] = work(place);
  } else {
    tensorflow::thread::ThreadPool* pool = workers->workers;
    std::vector<std::atomic<int64_t>> next(num_parts);  // place to work on next in each part
    for (int64_t part = 0; part < num_parts; ++part) next[part] = count * part / num_parts;
    tensorflow::BlockingCounter unfinished(num_parts);
    const auto work_on_parts = [&] {
      const int64_t first = std::max(pool->CurrentThreadId(), 0);
      for (int64_t turn = 0; turn < num_parts; ++turn) {
        const int64_t part = (first + turn) % num_parts;
        const int64_t end = count * (part + 1) / num_parts;
        for (int64_t place; (place = next[part].fetch_add(1)) < end;) statuses[place] = work(place);
      }
      unfinished.DecrementCount();
    };
    for (int64_t part = 0; part < num_parts; ++part) pool->Schedule(work_on_parts);
    unfinished.Wait();
  }
  for (const Status& status : statuses) TF_RETURN_IF_ERROR(status);
  return tensorflow::Status();
}

class LookUpTablesOp : public OpKernel {
 public:
  explicit LookUpTablesOp(OpKernelConstruction* context) : OpKernel(context), features_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("widths", &widths_));
    OP_REQUIRES_OK(context, context->GetAttr("layer", &layer_));
    OP_REQUIRES_OK(context, context->GetAttr("layer_of_other", &layer_of_other_));
    OP_REQUIRES_OK(context, context->GetAttr("column_of_other", &column_of_other_));
    OP_REQUIRES_OK(context, context->GetAttr("width_of_other", &width_of_other_));
    OP_REQUIRES_OK(context, context->GetAttr("num_variables", &num_variables_));
  }

  void Compute(OpKernelContext* context) override {
    LockedVariables tables;
    if (!tables.Lock(context, 0, num_variables_, /*to_write=*/false)) return;
    OpInputList others;
    OP_REQUIRES_OK(context, context->input_list("others", &others));
    const int64_t num_features = features_.all.size();
    std::vector<int64_t> num_rows(widths_.size(), -1);
    std::vector<Tensor*> layers(widths_.size());
    OP_REQUIRES_OK(context, CountRows(context, others, &num_rows));
    for (size_t place = 0; place < widths_.size(); ++place) {
      TensorShape shape;
      OP_REQUIRES_OK(context,
                     TensorShape::BuildTensorShape({num_rows[place], widths_[place]}, &shape));
      OP_REQUIRES_OK(context, context->allocate_output(place, shape, &layers[place]));
    }
    OP_REQUIRES_OK(context, ForEach(context, num_features, tables, [&](int64_t place) {
      const Feature& feature = features_.all[place];
      Tensor& table = tables[feature.variable];
      const int64_t stride = widths_[layer_[place]];
      Entries entries;
      TF_RETURN_IF_ERROR(Check(table, feature, stride));
      TF_RETURN_IF_ERROR(features_.Read(context, feature, &entries));
      float* sums = layers[layer_[place]]->flat<float>().data() + feature.column;
      WithWidth(table.dim_size(1), [&](auto width) {
        Combine(entries, table.flat<float>().data(), width, sums, stride);
      });
      return tensorflow::Status();
    }));
    for (int place = 0; place < others.size(); ++place) {
      Copy(others[place], column_of_other_[place], layers[layer_of_other_[place]]);
    }
  }

 private:
  // Sets the number of rows of each layer.
  Status CountRows(OpKernelContext* context, const OpInputList& others,
                   std::vector<int64_t>* num_rows) {
    for (size_t place = 0; place < features_.all.size(); ++place) {
      int64_t rows;
      TF_RETURN_IF_ERROR(features_.CountSums(context, features_.all[place], &rows));
      TF_RETURN_IF_ERROR(Agree(rows, &(*num_rows)[layer_[place]]));
    }
    for (int place = 0; place < others.size(); ++place) {
      // A program may give a tensor a static shape that isn't its own.
      if (others[place].dims() != 2 || others[place].dim_size(1) != width_of_other_[place]) {
        return InvalidArgument("ConcatOp : Dimensions of inputs should match: a part has the shape ",
                               others[place].shape().DebugString(), ", and not ",
                               width_of_other_[place], " columns");
      }
      TF_RETURN_IF_ERROR(
          Agree(others[place].dim_size(0), &(*num_rows)[layer_of_other_[place]]));
    }
    return tensorflow::Status();
  }

  static Status Agree(int64_t rows, int64_t* known) {
    if (*known >= 0 && rows != *known) {
      return InvalidArgument("ConcatOp : Dimensions of inputs should match: ", rows, " vs. ",
                             *known);
    }
    *known = rows;
    return tensorflow::Status();
  }

  static Status Check(const Tensor& table, const Feature& feature, int64_t stride) {
    if (table.dims() == 2 && feature.first_row + feature.num_rows <= table.dim_size(0) &&
        feature.column + table.dim_size(1) <= stride) {
      return tensorflow::Status();
    }
    return InvalidArgument("a table ", table.shape().DebugString(), " has other rows or columns");
  }

  // Sets sums of rows. There are two loops with the same results: which one is faster depends on
  // whether a sum has one row or several.
  template <typename Width>
  static void Combine(const Entries& entries, const float* table, Width width, float* sums,
                      int64_t stride) {
    int64_t num_begun = 0;  // sums that are set
    const auto clear_until = [&](int64_t end) {
      for (; num_begun < end; ++num_begun) std::fill_n(sums + num_begun * stride, width, 0.0f);
    };
    const int64_t count = entries.count;
    const auto row = [&](int64_t place) { return table + entries.rows[place] * width; };
    // Width() is 0 if the width isn't a constant.
    if (Width() && count > entries.num_sums) {
      float total[std::max<int64_t>(Width(), 1)];  // in registers
      for (int64_t place = 0; place < count;) {
        const int64_t sum = entries.sums[place];
        float* to = sums + sum * stride;
        if (sum < num_begun) {  // of sparse ids that aren't in order
          std::copy_n(to, width, total);
        } else {
          clear_until(sum);
          ++num_begun;
          std::fill_n(total, width, 0.0f);
        }
        do {
          if (place + kAhead < count) Prefetch(row(place + kAhead), width);
          AddScaled(total, row(place), entries.weight(place), width);
          ++place;
        } while (place < count && entries.sums[place] == sum);
        std::copy_n(total, width, to);
      }
    } else {
      for (int64_t place = 0; place < count; ++place) {
        if (place + kAhead < count) Prefetch(row(place + kAhead), width);
        const int64_t sum = entries.sums[place];
        float* to = sums + sum * stride;
        if (sum < num_begun) {
          AddScaled(to, row(place), entries.weight(place), width);
        } else {
          clear_until(sum);
          ++num_begun;
          SetScaled(to, row(place), entries.weight(place), width);
        }
      }
    }
    clear_until(entries.num_sums);
    for (size_t place = 0; place < entries.divisors.size(); ++place) {
      Divide(sums + place * stride, sums + place * stride, entries.divisors[place], width);
    }
  }

  static void Copy(const Tensor& other, int64_t column, Tensor* layer) {
    const int64_t width = other.dim_size(1), stride = layer->dim_size(1);
    const float* from = other.flat<float>().data();
    float* to = layer->flat<float>().data() + column;
    for (int64_t row = 0; row < other.dim_size(0); ++row) {
      std::copy_n(from + row * width, width, to + row * stride);
    }
  }

  Features features_;
  std::vector<int64_t> widths_, layer_, layer_of_other_, column_of_other_, width_of_other_;
  int num_variables_;
};

class UpdateTablesOp : public OpKernel {
 public:
  explicit UpdateTablesOp(OpKernelConstruction* context) : OpKernel(context), features_(context) {
    std::string rule;
    int num_slots;
    OP_REQUIRES_OK(context, context->GetAttr("rule", &rule));
    OP_REQUIRES_OK(context, context->GetAttr("num_variables", &num_variables_));
    OP_REQUIRES_OK(context, context->GetAttr("num_slots", &num_slots));
    rule_ = rule == "sgd" ? Rule::kSgd : Rule::kAdagradNoNan;
    has_slots_ = rule_ != Rule::kSgd;
    OP_REQUIRES(context, num_slots == (has_slots_ ? num_variables_ : 0),
                InvalidArgument("rule ", rule, " and ", num_slots, " slots of ", num_variables_,
                                " variables"));
    // Features of one table are in one unit: no row is in two of them.
    for (size_t place = 0; place < features_.all.size(); ++place) {
      const Feature& feature = features_.all[place];
      size_t unit = 0;
      while (unit < tables_.size() && !IsOfTable(feature, features_.all[tables_[unit][0]])) ++unit;
      if (unit == tables_.size()) tables_.emplace_back();
      tables_[unit].push_back(place);
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
    const Tensor* factor;
    OP_REQUIRES_OK(context, context->input("factor", &factor));
    OP_REQUIRES(context, factor->NumElements() == 1, InvalidArgument("factor must be a scalar"));
    OP_REQUIRES_OK(context, ForEach(context, tables_.size(), variables, [&](int64_t table) {
      const int64_t variable = features_.all[tables_[table][0]].variable;
      if (rates[variable].NumElements() != 1) return InvalidArgument("rates must be scalars");
      Hyperparameters h;
      h.rate = rates[variable].flat<float>()(0);
      Tensor* slots = has_slots_ ? &variables[num_variables_ + variable] : nullptr;
      return Update(context, tables_[table], gradients, factor->flat<float>()(0), h,
                    &variables[variable], slots);
    }));
  }

 private:
  static bool IsOfTable(const Feature& feature, const Feature& other) {
    return feature.variable == other.variable && feature.first_row == other.first_row;
  }

  // Updates the rows of a table that some features look up.
  Status Update(OpKernelContext* context, const std::vector<int>& features,
                const OpInputList& gradients, float factor, const Hyperparameters& h,
                Tensor* table, Tensor* slots) {
    const int64_t width = table->dim_size(1);
    std::vector<Entries> all(features.size());
    std::vector<int64_t> rows;  // of all entries
    int64_t num_rows = 0;       // of the table
    for (size_t place = 0; place < features.size(); ++place) {
      const Feature& feature = features_.all[features[place]];
      const Tensor& gradient = gradients[features[place]];
      TF_RETURN_IF_ERROR(features_.Read(context, feature, &all[place]));
      num_rows = std::max(num_rows, feature.num_rows);
      const int64_t stride = gradient.dims() ? gradient.dim_size(gradient.dims() - 1) : 0;
      if (feature.column + width > stride ||
          gradient.NumElements() != all[place].num_sums * stride ||
          feature.first_row + feature.num_rows > table->dim_size(0)) {
        return InvalidArgument("table ", table->shape().DebugString(), ", ", all[place].num_sums,
                               " sums and gradient ", gradient.shape().DebugString(), " differ");
      }
      rows.insert(rows.end(), all[place].rows.get(), all[place].rows.get() + all[place].count);
    }
    std::vector<int64_t> distinct;
    std::vector<int32_t> index(rows.size());
    const int64_t count = rows.size(), first_row = features_.all[features[0]].first_row;
    if (num_rows <= 4 * count) {
      FindDistinctInRange(rows.data(), count, first_row, first_row + num_rows, index.data(),
                          &distinct);
    } else {
      FindDistinct(rows.data(), count, index.data(), &distinct);
    }
    const int64_t num_sums = distinct.size();
    std::vector<float> sums(num_sums * width, 0.0f);
    const int32_t* next = index.data();
    for (size_t place = 0; place < features.size(); ++place) {
      const Tensor& gradient = gradients[features[place]];
      const Entries& entries = all[place];
      const int64_t stride = gradient.dim_size(gradient.dims() - 1);
      const float* from = gradient.flat<float>().data() + features_.all[features[place]].column;
      AddGradients(entries, from, stride, width, next, sums.data());
      next += entries.count;
    }
    if (factor != 1.0f) {
      for (float& sum : sums) sum *= factor;
    }
    std::vector<const float*> gradients_of_rows(num_sums);
    for (int64_t place = 0; place < num_sums; ++place) {
      gradients_of_rows[place] = sums.data() + place * width;
    }
    UpdateRows(rule_, h, table->flat<float>().data(),
               {slots ? slots->flat<float>().data() : nullptr}, distinct, gradients_of_rows, width);
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

  Features features_;
  std::vector<std::vector<int>> tables_;  // numbers of the features of each table
  Rule rule_;
  int num_variables_;
  bool has_slots_;
};

REGISTER_KERNEL_BUILDER(Name("TpuColumnsLookUpTables").Device(tensorflow::DEVICE_CPU),
                        LookUpTablesOp);
REGISTER_KERNEL_BUILDER(Name("TpuColumnsUpdateTables").Device(tensorflow::DEVICE_CPU),
                        UpdateTablesOp);

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_MANY_TABLES_H_
