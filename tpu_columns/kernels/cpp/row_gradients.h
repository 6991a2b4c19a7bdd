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
template <typename Tensors>
Status SumGradients(const TableRows& rows, const std::vector<Entries>& entries,
                    const std::vector<int64_t>& places, const Tensors& gradients,
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
    .Input("gradient: float")
    .Input("rows: variant")
    .Output("ids: int64")
    .Output("sums: float")
    .Attr("feature: int")
    .Attr("column: int")
    .Attr("width: int")
    .SetShapeFn([](InferenceContext* c) {
      int64_t width;
      TF_RETURN_IF_ERROR(c->GetAttr("width", &width));
      TF_RETURN_IF_ERROR(CheckWidths({width}));
      const DimensionHandle rows = c->UnknownDim();
      c->set_output(0, c->Vector(rows));
      c->set_output(1, c->Matrix(rows, width));
      return tensorflow::Status();
    })
    .Doc(R"doc(
Sums the gradients of the rows that a feature of TpuColumnsLookUpTables has read. No other feature has
its variable.

gradient: of the feature's sums, in columns from `column` on.
rows: of the lookup.
ids: distinct rows.
sums: gradients of these rows.
feature: number of the feature.
width: number of columns of its table.
)doc");

class RowGradientsOp : public OpKernel {
 public:
  explicit RowGradientsOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("feature", &feature_));
    OP_REQUIRES_OK(context, context->GetAttr("column", &column_));
    OP_REQUIRES_OK(context, context->GetAttr("width", &width_));
    OP_REQUIRES_OK(context, CheckWidths({width_, column_}));
  }

  void Compute(OpKernelContext* context) override {
    const OpScope scope;
    StepRows* rows;
    OP_REQUIRES_OK(context, FindStepRows(context, &rows));
    // Each feature is a table of its own, in the order of features.
    OP_REQUIRES(context,
                feature_ >= 0 && feature_ < rows->num_tables() &&
                    rows->num_tables() == static_cast<int64_t>(rows->entries.size()),
                InvalidArgument("the lookup has no feature ", feature_, " with its own variable"));
    const TableRows& table = rows->Rows(feature_);
    const int64_t count = table.distinct.size();
    Tensor *ids, *sums;
    TensorShape shape;
    OP_REQUIRES_OK(context, TensorShape::BuildTensorShape({count, width_}, &shape));
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({count}), &ids));
    OP_REQUIRES_OK(context, context->allocate_output(1, shape, &sums));
    std::copy(table.distinct.begin(), table.distinct.end(), ids->flat<int64_t>().data());
    const std::vector<Tensor> gradients{context->input(0)};
    OP_REQUIRES_OK(context, SumGradients(table, rows->entries, {0}, gradients, {column_}, width_,
                                         sums->flat<float>().data()));
  }

 private:
  int64_t feature_, column_, width_;
};

REGISTER_KERNEL_BUILDER(Name("TpuColumnsRowGradients").Device(tensorflow::DEVICE_CPU),
                        RowGradientsOp);

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_ROW_GRADIENTS_H_
