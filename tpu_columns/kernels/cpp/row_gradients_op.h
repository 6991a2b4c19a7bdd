// SPDX-License-Identifier: Apache-2.0
//
// Op that returns sums of gradients by row; see tpu_columns/native_lookup.py.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "op_helpers.h"
#include "ordering.h"
#include "row_gradients.h"
#include "step_rows.h"

namespace tpu_columns {
namespace {

REGISTER_OP("TpuColumnsRowGradients")
    .Input("gradient: float")
    .Input("rows: variant")
    .Output("ids: int64")
    .Output("sums: float")
    .Attr("feature: int")
    .Attr("column: int")
    .Attr("width: int")
    .SetShapeFn([](InferenceContext* c) {
      int64_t width = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("width", &width));
      TF_RETURN_IF_ERROR(CheckWidths({width}));
      const DimensionHandle rows = c->UnknownDim();
      c->set_output(0, c->Vector(rows));
      c->set_output(1, c->Matrix(rows, width));
      return absl::OkStatus();
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
    StepRows* rows = nullptr;
    OP_REQUIRES_OK(context, FindStepRows(context, &rows));
    // Each feature is a table of its own, in the order of features.
    OP_REQUIRES(context,
                feature_ >= 0 && feature_ < rows->num_tables() &&
                    rows->num_tables() == static_cast<int64_t>(rows->entries.size()),
                InvalidArgument("the lookup has no feature ", feature_, " with its own variable"));
    const TableRows& table = rows->Rows(feature_);
    const int64_t count = table.distinct.size();
    Tensor *ids = nullptr, *sums = nullptr;
    TensorShape shape;
    OP_REQUIRES_OK(context, TensorShape::BuildTensorShape({count, width_}, &shape));
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({count}), &ids));
    OP_REQUIRES_OK(context, context->allocate_output(1, shape, &sums));
    std::copy(table.distinct.begin(), table.distinct.end(), ids->flat<int64_t>().data());
    Gradient gradient;
    OP_REQUIRES_OK(context, FindGradient(context->input(0), rows->entries[feature_].num_sums,
                                         column_, width_, &gradient));
    SumGradients(table, rows->entries, {gradient}, width_, sums->flat<float>().data());
  }

 private:
  int64_t feature_ = 0, column_ = 0, width_ = 0;
};

REGISTER_KERNEL_BUILDER(Name("TpuColumnsRowGradients").Device(tensorflow::DEVICE_CPU),
                        RowGradientsOp);

}  // namespace
}  // namespace tpu_columns
