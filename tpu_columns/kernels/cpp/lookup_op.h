// SPDX-License-Identifier: Apache-2.0
//
// Op that looks up and combines rows of one or many tables; see tpu_columns/native_lookup.py and
// estimator_spec/core/cores/native_tables.py.
//
// It reads each row where it is and adds it where a layer of the model has it: there are no
// gathered rows, no combined rows and no concatenation. It goes through the tables in parallel, and
// through the ids of a table in order, so results don't depend on the number of threads. While the
// model computes its output, other threads find repeated ids for the update.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "entries.h"
#include "lookup_features.h"
#include "op_helpers.h"
#include "ordering.h"
#include "rows.h"
#include "shared_work.h"
#include "step_rows.h"

namespace tpu_columns {
namespace {

// Attributes of a lookup with one element for each feature; `sparse` and `weighted` are 0 or 1.
//
// variable: number of the variable that has the feature's table, among `variables` and `tables`.
// first_row, num_rows, num_shards: first row of the table in its variable, its rows, and the shards
//   in which they are in order; id i is row i / num_shards of shard i % num_shards.
// safe: 1: negative ids are padding, and of weighted means those whose weight isn't positive; if a
// row
//   has no other ids, row 0 of the table is trained with a gradient of zero, as
//   tf.nn.safe_embedding_lookup_sparse does. 0: zeros of dense ids are padding.
// column_name, key, weight_key: of messages, quoted; '' if the weights have no name.
// combiner: 0 for 'sum', 1 for 'mean', 2 for 'sqrtn'.
// num_steps: of a sequence, which isn't safe, how many of its steps are looked up, each of which
// has
//   a sum of its own; otherwise 0.
REGISTER_OP("TpuColumnsLookUpTables")
    .Input("variables: num_variables * resource")
    .Input("tables: num_tables * float")
    .Input("others: num_others * float")
    .Input("ids: Ids")
    .Input("indices: num_sparse * int64")
    .Input("shapes: num_sparse * int64")
    .Input("weights: num_weighted * float")
    .Output("layers: num_layers * float")
    .Output("rows: variant")
    .Attr("Ids: list({int32, int64}) >= 1")
    .Attr("num_variables: int >= 0")
    .Attr("num_tables: int >= 0")
    .Attr("num_others: int >= 0")
    .Attr("num_sparse: int >= 0")
    .Attr("num_weighted: int >= 0")
    .Attr("num_layers: int >= 1")
    .Attr("variable: list(int)")
    .Attr("first_row: list(int)")
    .Attr("num_rows: list(int)")
    .Attr("num_shards: list(int)")
    .Attr("safe: list(int)")
    .Attr("column_name: list(string)")
    .Attr("key: list(string)")
    .Attr("weight_key: list(string)")
    .Attr("combiner: list(int)")
    .Attr("num_steps: list(int)")
    .Attr("sparse: list(int)")
    .Attr("weighted: list(int)")
    .Attr("trains: bool")
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
      const int num_layers = c->num_outputs() - 1;
      TF_RETURN_IF_ERROR(CheckSizes({widths.size()}, num_layers));
      TF_RETURN_IF_ERROR(CheckWidths(widths));
      for (int layer = 0; layer < num_layers; ++layer) {
        c->set_output(layer, c->Matrix(InferenceContext::kUnknownDim, widths[layer]));
      }
      c->set_output(num_layers, c->Scalar());
      return absl::OkStatus();
    })
    .Doc(R"doc(
Combines rows of tables, in the columns of matrices.

tables: values of variables, after `variables`.
ids: of each feature: a matrix, or the values of a sparse tensor.
indices, shapes: the other parts of the sparse tensors, in the order of their features.
weights: of the weighted features, which are sparse, and no sequences.
others: matrices to copy into layers.
layers: matrices with a row for each row of ids, or for each step of a sequence.
rows: the rows that are read, for TpuColumnsUpdateTables and TpuColumnsRowGradients.
trains: whether the tables are trained.
widths: numbers of columns of the layers.
layer, column: of each feature: the layer that has its sums, and the first column.
layer_of_other, column_of_other: the same of each of `others`.
width_of_other: number of columns of each of `others`.
)doc");

class LookUpTablesOp : public OpKernel {
 public:
  explicit LookUpTablesOp(OpKernelConstruction* context) : OpKernel(context), features_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("widths", &widths_));
    OP_REQUIRES_OK(context, context->GetAttr("trains", &trains_));
    OP_REQUIRES_OK(context, context->GetAttr("layer", &layer_));
    OP_REQUIRES_OK(context, context->GetAttr("layer_of_other", &layer_of_other_));
    OP_REQUIRES_OK(context, context->GetAttr("column_of_other", &column_of_other_));
    OP_REQUIRES_OK(context, context->GetAttr("width_of_other", &width_of_other_));
    OP_REQUIRES_OK(context, context->GetAttr("num_variables", &num_variables_));
    int num_others = 0;
    OP_REQUIRES_OK(context, context->GetAttr("num_layers", &num_layers_));
    OP_REQUIRES_OK(context, context->GetAttr("num_others", &num_others));
    OP_REQUIRES_OK(context, CheckSizes({widths_.size()}, num_layers_));
    OP_REQUIRES_OK(context, CheckWidths(widths_));
    OP_REQUIRES_OK(context, CheckSizes({layer_.size()}, features_.all.size()));
    OP_REQUIRES_OK(context, CheckSizes({layer_of_other_.size(), column_of_other_.size(),
                                        width_of_other_.size()},
                                       num_others));
    const auto is_layer = [&](int64_t layer) { return layer >= 0 && layer < num_layers_; };
    for (size_t place = 0; place < layer_.size(); ++place) {
      OP_REQUIRES(context, is_layer(layer_[place]),
                  InvalidArgument("feature ", place, " has no layer ", layer_[place]));
    }
    for (size_t place = 0; place < layer_of_other_.size(); ++place) {
      const int64_t column = column_of_other_[place], width = width_of_other_[place];
      OP_REQUIRES(context,
                  is_layer(layer_of_other_[place]) && column >= 0 && width >= 0 &&
                      width <= widths_[layer_of_other_[place]] &&
                      column <= widths_[layer_of_other_[place]] - width,
                  InvalidArgument("attributes of other ", place, " are out of range"));
    }
    free_rows_ = std::make_shared<FreeStepRows>(features_.all.size(), features_.tables);
  }

  void Compute(OpKernelContext* context) override {
    const OpScope scope;
    LockedVariables variables;
    OP_REQUIRES_OK(context, variables.Lock(context, num_variables_, /*to_write=*/false));
    OpInputList others, values;
    OP_REQUIRES_OK(context, context->input_list("tables", &values));
    std::vector<const Tensor*> tables;
    for (const Tensor* each : variables.tensors()) tables.push_back(each);
    for (const Tensor& each : values) tables.push_back(&each);
    OP_REQUIRES_OK(context, context->input_list("others", &others));
    const int64_t num_features = features_.all.size();
    std::vector<int64_t> num_rows(num_layers_, -1);
    std::vector<Tensor*> layers(num_layers_);
    OP_REQUIRES_OK(context, CountRows(context, others, &num_rows));
    for (int layer = 0; layer < num_layers_; ++layer) {
      TensorShape shape;
      OP_REQUIRES_OK(context,
                     TensorShape::BuildTensorShape({num_rows[layer], widths_[layer]}, &shape));
      OP_REQUIRES_OK(context, context->allocate_output(layer, shape, &layers[layer]));
    }
    const std::shared_ptr<StepRows> rows = free_rows_->Take();
    const int64_t num_ids = CountIds(context);
    OP_REQUIRES(context, num_ids < kMaxIds, InvalidArgument("too many ids in a step: ", num_ids));
    const bool are_many = AreMany(num_ids, tables);
    OP_REQUIRES_OK(context, ForEach(context, num_features, are_many, [&](int64_t place) {
                     const Feature& feature = features_.all[place];
                     const Tensor& table = *tables[feature.variable];
                     const int64_t stride = widths_[layer_[place]];
                     TF_RETURN_IF_ERROR(Check(table, feature, stride));
                     TF_RETURN_IF_ERROR(features_.Read(context, feature, rows.get()));
                     float* sums = layers[layer_[place]]->flat<float>().data() + feature.column;
                     WithWidth(table.dim_size(1), [&](auto width) {
                       Combine(rows->entries[place], table.flat<float>().data(), width, sums,
                               stride);
                     });
                     return absl::OkStatus();
                   }));
    for (int place = 0; place < others.size(); ++place) {
      Copy(others[place], column_of_other_[place], layers[layer_of_other_[place]]);
    }
    Tensor* element = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(num_layers_, TensorShape({}), &element));
    element->scalar<tensorflow::Variant>()() = StepRowsElement{rows};
    if (!are_many || !trains_) return;
    // Half of the threads, as the model needs some at the same time.
    const auto* workers = context->device()->tensorflow_cpu_worker_threads();
    for (int64_t thread = 0; thread < workers->num_threads / 2; ++thread) {
      Schedule(workers->workers, [rows] { rows->FindAll(); });
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
  absl::Status CountRows(OpKernelContext* context, const OpInputList& others,
                         std::vector<int64_t>* num_rows) {
    for (size_t place = 0; place < features_.all.size(); ++place) {
      int64_t rows = 0;
      TF_RETURN_IF_ERROR(features_.CountSums(context, features_.all[place], &rows));
      TF_RETURN_IF_ERROR(Agree(rows, &(*num_rows)[layer_[place]]));
    }
    for (int place = 0; place < others.size(); ++place) {
      // A program may give a tensor a static shape that isn't its own.
      if (others[place].dims() != 2 || others[place].dim_size(1) != width_of_other_[place]) {
        return InvalidArgument(
            "ConcatOp : Dimensions of inputs should match: a part has the shape ",
            others[place].shape().DebugString(), ", and not ", width_of_other_[place], " columns");
      }
      TF_RETURN_IF_ERROR(Agree(others[place].dim_size(0), &(*num_rows)[layer_of_other_[place]]));
    }
    return absl::OkStatus();
  }

  static absl::Status Agree(int64_t rows, int64_t* known) {
    if (*known >= 0 && rows != *known) {
      return InvalidArgument("ConcatOp : Dimensions of inputs should match: ", rows, " vs. ",
                             *known);
    }
    *known = rows;
    return absl::OkStatus();
  }

  static absl::Status Check(const Tensor& table, const Feature& feature, int64_t stride) {
    if (table.dims() == 2 && feature.first_row + feature.num_rows <= table.dim_size(0) &&
        feature.column + table.dim_size(1) <= stride) {
      return absl::OkStatus();
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
  int num_variables_ = 0, num_layers_ = 0;
  bool trains_ = false;
};

REGISTER_KERNEL_BUILDER(Name("TpuColumnsLookUpTables").Device(tensorflow::DEVICE_CPU),
                        LookUpTablesOp);

}  // namespace
}  // namespace tpu_columns
