// SPDX-License-Identifier: Apache-2.0
//
// Ops that look up, combine and update rows of many tables at once; see cores/native_tables.py.
//
// TpuColumnsLookUpTables reads each row where it is and adds it where a layer of the model has it:
// there are no gathered rows, no combined rows and no concatenation. TpuColumnsUpdateTables reads
// gradients in a layer's gradient. Both go through the tables in parallel, and through the ids of a
// table in order, so results don't depend on the number of threads. While the model computes its
// output, other threads find repeated ids for the update.
//
// A feature has ids of one table, dense or sparse. A table is a range of rows of a variable.

#ifndef TPU_COLUMNS_MANY_TABLES_H_
#define TPU_COLUMNS_MANY_TABLES_H_

#include <atomic>
#include <thread>

#include "rows.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_encode_decode.h"
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
// How often a thread yields before it waits for others: some hundred microseconds.
constexpr int kMaxYields = 1000;

// Attributes of a lookup with one element for each feature; `sparse` and `weighted` are 0 or 1.
//
// variable: number of the variable that has the feature's table.
// first_row, num_rows, num_shards: first row of the table in its variable, its rows, and the shards
//   in which they are in order; id i is row i / num_shards of shard i % num_shards.
// mark: an id out of range is clipped to ± `mark_limit`, then `mark` is added; the sum in the error
//   tells feature and id.
// combiner: 0 for 'sum', 1 for 'mean', 2 for 'sqrtn'.
// num_steps: of a sequence, how many of its steps are looked up, each of which has a sum of its own;
//   otherwise 0.
REGISTER_OP("TpuColumnsLookUpTables")
    .Input("variables: num_variables * resource")
    .Input("others: num_others * float")
    .Input("ids: Ids")
    .Input("indices: num_sparse * int64")
    .Input("shapes: num_sparse * int64")
    .Input("weights: num_weighted * float")
    .Output("layers: num_layers * float")
    .Output("rows: variant")
    .Attr("Ids: list({int32, int64}) >= 1")
    .Attr("num_variables: int >= 1")
    .Attr("num_others: int >= 0")
    .Attr("num_sparse: int >= 0")
    .Attr("num_weighted: int >= 0")
    .Attr("num_layers: int >= 1")
    .Attr("variable: list(int)")
    .Attr("first_row: list(int)")
    .Attr("num_rows: list(int)")
    .Attr("num_shards: list(int)")
    .Attr("mark: list(int)")
    .Attr("mark_limit: int")
    .Attr("combiner: list(int)")
    .Attr("num_steps: list(int)")
    .Attr("sparse: list(int)")
    .Attr("weighted: list(int)")
    .Attr("widths: list(int)")
    .Attr("layer: list(int)")
    .Attr("column: list(int)")
    .Attr("layer_of_other: list(int)")
    .Attr("column_of_other: list(int)")
    .Attr("width_of_other: list(int)")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      std::vector<int64_t> widths;
      TF_RETURN_IF_ERROR(c->GetAttr("widths", &widths));
      for (size_t place = 0; place < widths.size(); ++place) {
        c->set_output(place, c->Matrix(InferenceContext::kUnknownDim, widths[place]));
      }
      c->set_output(widths.size(), c->Scalar());
      return tensorflow::Status();
    })
    .Doc(R"doc(
Combines rows of tables, in the columns of matrices.

ids: of each feature: a matrix whose zeros are padding, or the values of a sparse tensor.
indices, shapes: the other parts of the sparse tensors, in the order of their features.
weights: of the weighted features, which are sparse, and no sequences.
others: matrices to copy into layers.
layers: matrices with a row for each row of ids, or for each step of a sequence.
rows: the rows that are read, for TpuColumnsUpdateTables.
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

// A feature's ids of one step, as rows of its variable; those that are padding are left out.
struct Entries {
  int64_t count = 0;
  std::vector<int64_t> rows;
  std::vector<int32_t> sums;        // place of each entry's sum
  const float* weights = nullptr;   // of each entry; null: all are 1
  Tensor weight_tensor;             // has their memory
  std::vector<float> divisors;      // of each sum; empty: all are 1
  int64_t num_sums = 0;

  float weight(int64_t place) const { return weights ? weights[place] : 1.0f; }
};

// Rows of one table, or of the part of it that some features read, in one step.
struct TableRows {
  std::vector<int> features;  // which read it
  int64_t begin, end;         // rows of the table in its variable
  std::vector<int64_t> distinct;
  std::vector<int32_t> index;  // of the entries of all features: place in `distinct`

  void Find(const std::vector<Entries>& entries) {
    std::vector<int64_t> rows;  // of all entries
    for (const int feature : features) {
      const Entries& each = entries[feature];
      rows.insert(rows.end(), each.rows.begin(), each.rows.begin() + each.count);
    }
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
      each.divisors.clear();
    }
    for (const auto& table : tables_) {
      table->is_begun = false;
      table->unfinished = std::make_unique<tensorflow::BlockingCounter>(1);
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
    table->unfinished->Wait();
    return table->rows;
  }

  // Returns the features of a table, and its rows in its variable; not the rows read.
  const TableRows& Description(int64_t number) const { return tables_[number]->rows; }

  std::vector<Entries> entries;  // of each feature

 private:
  struct Table {
    TableRows rows;
    std::atomic<bool> is_begun{false};
    std::unique_ptr<tensorflow::BlockingCounter> unfinished;
  };

  void FindIfNotBegun(Table* table) {
    if (table->is_begun.exchange(true)) return;
    table->rows.Find(entries);
    table->unfinished->DecrementCount();
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
      mutex_lock lock(mutex_);
      if (!free_.empty()) {
        found = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!found) found = std::make_unique<StepRows>(num_features_, tables_);
    return {found.release(), [self = shared_from_this()](StepRows* rows) {
              rows->Reset();
              mutex_lock lock(self->mutex_);
              self->free_.emplace_back(rows);
            }};
  }

 private:
  const size_t num_features_;
  const std::vector<TableRows> tables_;
  mutex mutex_;
  std::vector<std::unique_ptr<StepRows>> free_;
};

// A `StepRows` as an element of a tensor; it exists within a step only.
struct StepRowsElement {
  std::shared_ptr<StepRows> rows;

  std::string TypeName() const { return "tpu_columns::StepRows"; }
  void Encode(tensorflow::VariantTensorData*) const {}
  bool Decode(tensorflow::VariantTensorData) { return false; }
};

struct Feature {
  int64_t variable, first_row, num_rows, num_shards, mark, combiner, num_steps, column;
  int sparse = -1;    // number among the sparse features
  int weighted = -1;  // number among the weighted features

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
    std::vector<int64_t> variable, first_row, num_rows, num_shards, mark, combiner, num_steps;
    std::vector<int64_t> column, sparse, weighted;
    int num_variables;
    OP_REQUIRES_OK(context, context->GetAttr("num_variables", &num_variables));
    OP_REQUIRES_OK(context, context->GetAttr("variable", &variable));
    OP_REQUIRES_OK(context, context->GetAttr("first_row", &first_row));
    OP_REQUIRES_OK(context, context->GetAttr("num_rows", &num_rows));
    OP_REQUIRES_OK(context, context->GetAttr("num_shards", &num_shards));
    OP_REQUIRES_OK(context, context->GetAttr("mark", &mark));
    OP_REQUIRES_OK(context, context->GetAttr("mark_limit", &mark_limit_));
    OP_REQUIRES_OK(context, context->GetAttr("combiner", &combiner));
    OP_REQUIRES_OK(context, context->GetAttr("num_steps", &num_steps));
    OP_REQUIRES_OK(context, context->GetAttr("column", &column));
    OP_REQUIRES_OK(context, context->GetAttr("sparse", &sparse));
    OP_REQUIRES_OK(context, context->GetAttr("weighted", &weighted));
    int num_sparse = 0, num_weighted = 0;
    for (size_t place = 0; place < variable.size(); ++place) {
      Feature found{variable[place], first_row[place], num_rows[place],  num_shards[place],
                    mark[place],     combiner[place],  num_steps[place], column[place]};
      OP_REQUIRES(context,
                  found.variable >= 0 && found.variable < num_variables && found.first_row >= 0 &&
                      found.num_rows >= 0 && found.num_shards >= 1 && found.num_steps >= 0 &&
                      found.num_steps < int64_t{1} << 31 && found.column >= 0 &&
                      !(found.num_steps && weighted[place]),
                  InvalidArgument("attributes of feature ", place, " are out of range"));
      if (sparse[place]) found.sparse = num_sparse++;
      if (weighted[place]) found.weighted = num_weighted++;
      all.push_back(found);
    }
    // Features of one table are in one unit: no row is in two of them.
    for (size_t place = 0; place < all.size(); ++place) {
      const Feature& feature = all[place];
      size_t table = 0;
      while (table < tables.size() && !IsOfTable(feature, all[tables[table].features[0]])) ++table;
      if (table == tables.size()) tables.push_back({{}, feature.first_row, feature.first_row});
      TableRows& found = tables[table];
      found.features.push_back(place);
      found.end = std::max(found.end, feature.first_row + feature.num_rows);
    }
  }

  // Sets the number of sums of a feature.
  Status CountSums(OpKernelContext* context, const Feature& feature, int64_t* num_sums) const {
    OpInputList ids, shapes;
    TF_RETURN_IF_ERROR(context->input_list("ids", &ids));
    TF_RETURN_IF_ERROR(context->input_list("shapes", &shapes));
    const Tensor& values = ids[&feature - all.data()];
    int64_t num_rows;
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
    if (num_rows >= int64_t{1} << 31 || num_rows * feature.steps() >= int64_t{1} << 31) {
      return InvalidArgument("too many sums: ", num_rows, " rows of ", feature.steps(), " steps");
    }
    *num_sums = num_rows * feature.steps();
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
    if (count >= int64_t{1} << 29) return InvalidArgument("too many ids: ", count);
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
      if (found.NumElements() != count) {
        // tpu_columns/lookup_errors.py reads this message, and that of an id out of range.
        return InvalidArgument(
            "Number of rows of a_indices does not match number of entries in a_values (mark ",
            feature.mark, ")");
      }
      entries->weight_tensor = found;
      entries->weights = found.flat<float>().data();
    }
    entries->rows.resize(count);
    entries->sums.resize(count);
    const auto read = [&](const auto* values) {
      return feature.num_steps ? ReadIds<true>(feature, values, count, width, places, entries)
                               : ReadIds<false>(feature, values, count, width, places, entries);
    };
    TF_RETURN_IF_ERROR(values.dtype() == tensorflow::DT_INT64 ? read(values.flat<int64_t>().data())
                                                              : read(values.flat<int32_t>().data()));
    const bool has_single_ids = !is_sparse && (width == 1 || feature.num_steps);
    if (feature.combiner && !has_single_ids) SetDivisors(feature, entries);
    return tensorflow::Status();
  }

  std::vector<Feature> all;
  std::vector<TableRows> tables;  // without rows

 private:
  static bool IsOfTable(const Feature& feature, const Feature& other) {
    return feature.variable == other.variable && feature.first_row == other.first_row;
  }

  // Reads dense ids, `width` of each row, or sparse ones, whose indices are `places`.
  template <bool kHasSteps, typename Id>
  Status ReadIds(const Feature& feature, const Id* ids, int64_t count, int64_t width,
                 const Tensor* places, Entries* entries) const {
    const int64_t* indices = places ? places->flat<int64_t>().data() : nullptr;
    const int64_t rank = places ? places->dim_size(1) : 0;
    const int64_t num_rows = entries->num_sums / feature.steps();
    int64_t* rows = entries->rows.data();
    int32_t* sums = entries->sums.data();
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
    // Sums without ids are zero already.
    const auto changes_nothing = [&](float divisor) {
      return divisor == 1.0f || (divisor == 0.0f && !entries->weights);
    };
    if (std::all_of(entries->divisors.begin(), entries->divisors.end(), changes_nothing)) {
      entries->divisors.clear();
    }
  }

  int64_t mark_limit_ = 0;
};

// Work of an op on several threads: places 0 to `count` - 1 in parts.
struct SharedWork {
  SharedWork(int64_t count, int64_t num_parts) : count(count), next(num_parts) {
    for (int64_t part = 0; part < num_parts; ++part) next[part] = begin(part);
  }

  int64_t begin(int64_t part) const { return count * part / static_cast<int64_t>(next.size()); }

  // Works on the places that no other thread has begun, first on those of one part.
  template <typename Work>
  void WorkOn(int64_t first_part, const Work& work) {
    const int64_t num_parts = next.size();
    for (int64_t turn = 0; turn < num_parts; ++turn) {
      const int64_t part = (first_part + turn) % num_parts;
      for (int64_t place; (place = next[part].fetch_add(1)) < begin(part + 1);) {
        work(place);
        if (num_done.fetch_add(1) + 1 == count) unfinished.DecrementCount();
      }
    }
  }

  // Waits until all is done. Threads of the pool keep their cores busy while they look for more to
  // do, so it would take long to wake a thread that sleeps.
  void Wait() {
    for (int turn = 0; turn < kMaxYields && num_done.load() < count; ++turn) {
      std::this_thread::yield();
    }
    unfinished.Wait();
  }

  const int64_t count;
  std::vector<std::atomic<int64_t>> next;  // place to work on next in each part
  std::atomic<int64_t> num_done{0};
  tensorflow::BlockingCounter unfinished{1};
};

// Returns whether several threads pay for a number of ids.
bool AreMany(int64_t num_ids, LockedVariables& variables) {
  return num_ids >= (variables.num_bytes() > kCacheBytes ? kManyIds : kManyCachedIds);
}

// Calls `work` for 0 to `count` - 1, in parallel if `is_parallel`; returns the first failure.
//
// Each thread begins with a part of its own, the same in every op and step: rows that it has read or
// written before may still be in its core's cache. Then it helps with the parts of the others. The
// op's own thread works, too.
template <typename Work>
Status ForEach(OpKernelContext* context, int64_t count, bool is_parallel, const Work& work) {
  std::vector<Status> statuses(count);
  const auto* workers = context->device()->tensorflow_cpu_worker_threads();
  const int64_t num_parts = is_parallel ? std::min<int64_t>(workers->num_threads, count) : 1;
  if (num_parts <= 1) {
    for (int64_t place = 0; place < count; ++place) statuses[place] = work(place);
  } else {
    tensorflow::thread::ThreadPool* pool = workers->workers;
    const auto shared = std::make_shared<SharedWork>(count, num_parts);
    const auto set_status = [&statuses, &work](int64_t place) { statuses[place] = work(place); };
    for (int64_t part = 1; part < num_parts; ++part) {
      // This may begin when all is done and `work` is gone: then it finds no place to work on.
      pool->Schedule([shared, pool, num_parts, set_status] {
        shared->WorkOn(1 + std::max(pool->CurrentThreadId(), 0) % (num_parts - 1), set_status);
      });
    }
    shared->WorkOn(0, set_status);
    shared->Wait();
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
    free_rows_ = std::make_shared<FreeStepRows>(features_.all.size(), features_.tables);
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
    const std::shared_ptr<StepRows> rows = free_rows_->Take();
    const bool are_many = AreMany(CountIds(context), tables);
    OP_REQUIRES_OK(context, ForEach(context, num_features, are_many, [&](int64_t place) {
      const Feature& feature = features_.all[place];
      Tensor& table = tables[feature.variable];
      const int64_t stride = widths_[layer_[place]];
      Entries& entries = rows->entries[place];
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
    Tensor* element;
    OP_REQUIRES_OK(context, context->allocate_output(widths_.size(), TensorShape({}), &element));
    element->scalar<tensorflow::Variant>()() = StepRowsElement{rows};
    if (!are_many) return;
    // Half of the threads, as the model needs some at the same time.
    const auto* workers = context->device()->tensorflow_cpu_worker_threads();
    for (int64_t thread = 0; thread < workers->num_threads / 2; ++thread) {
      workers->workers->Schedule([rows] { rows->FindAll(); });
    }
  }

 private:
  static int64_t CountIds(OpKernelContext* context) {
    OpInputList ids;
    int64_t sum = 0;
    if (context->input_list("ids", &ids).ok()) {
      for (const Tensor& each : ids) sum += each.NumElements();
    }
    return sum;
  }

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
  std::shared_ptr<FreeStepRows> free_rows_;
  std::vector<int64_t> widths_, layer_, layer_of_other_, column_of_other_, width_of_other_;
  int num_variables_;
};

class UpdateTablesOp : public OpKernel {
 public:
  explicit UpdateTablesOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string rule;
    int num_slots;
    OP_REQUIRES_OK(context, context->GetAttr("rule", &rule));
    OP_REQUIRES_OK(context, context->GetAttr("num_variables", &num_variables_));
    OP_REQUIRES_OK(context, context->GetAttr("num_slots", &num_slots));
    OP_REQUIRES_OK(context, context->GetAttr("feature", &feature_));
    OP_REQUIRES_OK(context, context->GetAttr("variable", &variable_));
    OP_REQUIRES_OK(context, context->GetAttr("column", &column_));
    rule_ = rule == "sgd" ? Rule::kSgd : Rule::kAdagradNoNan;
    has_slots_ = rule_ != Rule::kSgd;
    OP_REQUIRES(context, num_slots == (has_slots_ ? num_variables_ : 0),
                InvalidArgument("rule ", rule, " and ", num_slots, " slots of ", num_variables_,
                                " variables"));
    for (size_t place = 0; place < feature_.size(); ++place) {
      OP_REQUIRES(context,
                  variable_[place] >= 0 && variable_[place] < num_variables_ && column_[place] >= 0,
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

REGISTER_KERNEL_BUILDER(Name("TpuColumnsLookUpTables").Device(tensorflow::DEVICE_CPU),
                        LookUpTablesOp);
REGISTER_KERNEL_BUILDER(Name("TpuColumnsUpdateTables").Device(tensorflow::DEVICE_CPU),
                        UpdateTablesOp);

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_MANY_TABLES_H_
