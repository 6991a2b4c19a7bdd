// SPDX-License-Identifier: Apache-2.0
//
// Sums of gradients by row, and the op that returns them; see tpu_columns/native_lookup.py.

#ifndef TPU_COLUMNS_ROW_GRADIENTS_H_
#define TPU_COLUMNS_ROW_GRADIENTS_H_

#include "shared_work.h"
#include "step_rows.h"

namespace tpu_columns {
namespace {

// Adds the gradients of one feature.
inline void AddGradients(const Entries& entries, const float* gradient, int64_t stride,
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

// Sets the sums of the gradients of a table's distinct rows, [number of rows, `width`].
//
// places: of the gradient of each of the table's features, among `gradients` and `columns`.
// columns: where a feature's gradient begins.
inline Status SumGradients(const TableRows& rows, const std::vector<Entries>& entries,
                           const std::vector<int64_t>& places, const OpInputList& gradients,
                           const std::vector<int64_t>& columns, int64_t width, float* sums) {
  std::fill_n(sums, rows.distinct.size() * width, 0.0f);
  const int32_t* next = rows.index.data();
  for (size_t i = 0; i < places.size(); ++i) {
    const Tensor& gradient = gradients[places[i]];
    const Entries& each = entries[rows.features[i]];
    const int64_t stride = gradient.dims() ? gradient.dim_size(gradient.dims() - 1) : 0;
    if (columns[places[i]] + width > stride || gradient.NumElements() != each.num_sums * stride) {
      return InvalidArgument(each.num_sums, " sums of ", width, " columns and gradient ",
                             gradient.shape().DebugString(), " differ");
    }
    const float* from = gradient.flat<float>().data() + columns[places[i]];
    AddGradients(each, from, stride, width, next, sums);
    next += each.count;
  }
  return tensorflow::Status();
}

REGISTER_OP("TpuColumnsRowGradients")
    .Input("gradients: num_gradients * float")
    .Input("rows: variant")
    .Output("ids: num_tables * int64")
    .Output("sums: num_tables * float")
    .Attr("num_gradients: int >= 1")
    .Attr("num_tables: int >= 1")
    .Attr("column: list(int)")
    .Attr("widths: list(int)")
    .SetShapeFn([](InferenceContext* c) {
      std::vector<int64_t> widths;
      TF_RETURN_IF_ERROR(c->GetAttr("widths", &widths));
      TF_RETURN_IF_ERROR(CheckSizes({&widths}, c->num_outputs() / 2));
      TF_RETURN_IF_ERROR(CheckWidths(widths));
      for (size_t place = 0; place < widths.size(); ++place) {
        const DimensionHandle rows = c->UnknownDim();
        c->set_output(place, c->Vector(rows));
        c->set_output(widths.size() + place, c->Matrix(rows, widths[place]));
      }
      return tensorflow::Status();
    })
    .Doc(R"doc(
Sums the gradients of the rows of tables that TpuColumnsLookUpTables has read.

gradients: of the sums of each feature of the lookup, in columns from `column` on.
rows: of the lookup.
ids: distinct rows of each table, in the order of the tables' first features.
sums: gradients of these rows.
widths: columns of each table.
)doc");

class RowGradientsOp : public OpKernel {
 public:
  explicit RowGradientsOp(OpKernelConstruction* context) : OpKernel(context) {
    int num_gradients, num_tables;
    OP_REQUIRES_OK(context, context->GetAttr("num_gradients", &num_gradients));
    OP_REQUIRES_OK(context, context->GetAttr("num_tables", &num_tables));
    OP_REQUIRES_OK(context, context->GetAttr("column", &column_));
    OP_REQUIRES_OK(context, context->GetAttr("widths", &widths_));
    OP_REQUIRES_OK(context, CheckSizes({&column_}, num_gradients));
    OP_REQUIRES_OK(context, CheckSizes({&widths_}, num_tables));
    OP_REQUIRES_OK(context, CheckWidths(widths_));
    OP_REQUIRES_OK(context, CheckWidths(column_));
  }

  void Compute(OpKernelContext* context) override {
    OpInputList gradients;
    OP_REQUIRES_OK(context, context->input_list("gradients", &gradients));
    StepRows* rows;
    OP_REQUIRES_OK(context, FindStepRows(context, &rows));
    const int64_t num_tables = widths_.size();
    OP_REQUIRES(context,
                rows->num_tables() == num_tables && rows->entries.size() == column_.size(),
                InvalidArgument("the lookup has ", rows->entries.size(), " features of ",
                                rows->num_tables(), " tables"));
    int64_t num_ids = 0;
    for (const Entries& each : rows->entries) num_ids += each.count;
    const bool are_many = num_ids >= kManyIds;
    OP_REQUIRES_OK(context, ForEach(context, num_tables, are_many, [&](int64_t number) {
      const TableRows& table = rows->Rows(number);
      const int64_t count = table.distinct.size();
      Tensor *ids, *sums;
      TensorShape shape;
      TF_RETURN_IF_ERROR(TensorShape::BuildTensorShape({count, widths_[number]}, &shape));
      TF_RETURN_IF_ERROR(context->allocate_output(number, TensorShape({count}), &ids));
      TF_RETURN_IF_ERROR(context->allocate_output(num_tables + number, shape, &sums));
      int64_t* to = ids->flat<int64_t>().data();
      for (const int64_t row : table.distinct) *to++ = row - table.begin;
      const std::vector<int64_t> places(table.features.begin(), table.features.end());
      return SumGradients(table, rows->entries, places, gradients, column_, widths_[number],
                          sums->flat<float>().data());
    }));
  }

 private:
  std::vector<int64_t> column_, widths_;
};

REGISTER_KERNEL_BUILDER(Name("TpuColumnsRowGradients").Device(tensorflow::DEVICE_CPU),
                        RowGradientsOp);

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_ROW_GRADIENTS_H_
