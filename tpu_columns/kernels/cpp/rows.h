// SPDX-License-Identifier: Apache-2.0
//
// Rows of tables: sums and update rules; checks of attributes, and locks of variables.
//
// Loops over the elements of a row use +, -, *, / and sqrt only (Ftrl with a power other than -0.5
// also pow), which are rounded alike in vectors and scalars, so a row's result doesn't depend on its
// width or place.

#ifndef TPU_COLUMNS_ROWS_H_
#define TPU_COLUMNS_ROWS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tpu_columns {
namespace {

using tensorflow::core::RefCountPtr;
using tensorflow::errors::InvalidArgument;
using tensorflow::mutex;
using tensorflow::mutex_lock;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tf_shared_lock;
using tensorflow::Var;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Rows are requested from memory this many rows ahead of their use, into the second-level cache,
// which can wait for more of them than the first.
constexpr int64_t kAhead = 32;

inline void Prefetch(const float* row, int64_t width) {
  for (int64_t place = 0; place < width; place += 16) __builtin_prefetch(row + place, 0, 2);
  // Rows of other widths don't begin where a cache line does.
  if (width % 16) __builtin_prefetch(row + width - 1, 0, 2);
}

// Calls `work` with the width of rows: as a constant if it is a common one, for which the compiler
// makes faster loops over a row.
template <typename Work>
void WithWidth(int64_t width, const Work& work) {
  switch (width) {
    case 4: return work(std::integral_constant<int64_t, 4>());
    case 8: return work(std::integral_constant<int64_t, 8>());
    case 12: return work(std::integral_constant<int64_t, 12>());
    case 16: return work(std::integral_constant<int64_t, 16>());
    case 24: return work(std::integral_constant<int64_t, 24>());
    case 32: return work(std::integral_constant<int64_t, 32>());
    case 64: return work(std::integral_constant<int64_t, 64>());
    default: return work(width);
  }
}

inline void AddScaled(float* __restrict sum, const float* __restrict row, float factor,
                      int64_t width) {
  if (factor == 1.0f) {
    for (int64_t place = 0; place < width; ++place) sum[place] += row[place];
  } else {
    for (int64_t place = 0; place < width; ++place) sum[place] += factor * row[place];
  }
}

// Sets a row to what `AddScaled` makes of zeros.
inline void SetScaled(float* __restrict sum, const float* __restrict row, float factor,
                      int64_t width) {
  for (int64_t place = 0; place < width; ++place) sum[place] = 0.0f + factor * row[place];
}

// Sets a row to the quotient of another one; to zeros if the divisor is zero.
inline void Divide(float* quotient, const float* row, float divisor, int64_t width) {
  if (divisor == 0.0f) {
    std::fill_n(quotient, width, 0.0f);
  } else {
    for (int64_t place = 0; place < width; ++place) quotient[place] = row[place] / divisor;
  }
}

// Finds the distinct ones of `count` < 2^29 ids, in the order of their first occurrence, and the
// place of each id among them. Without branches that depend on whether an id is new, which
// processors guess wrong.
template <typename Id, typename Index>
void FindDistinct(const Id* ids, int64_t count, Index* index, std::vector<Id>* distinct) {
  int bits = 4;
  while ((int64_t{1} << bits) < 4 * count) ++bits;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  std::vector<int32_t> table(mask + 1, -1);  // by hash: the place of an id in `distinct`
  distinct->resize(count);
  Id* found = distinct->data();
  int32_t size = 0;
  for (int64_t place = 0; place < count; ++place) {
    const Id id = ids[place];
    // The golden ratio spreads consecutive ids.
    uint64_t slot = (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15ull) >> (64 - bits);
    int32_t known = table[slot];
    while ((known >= 0) & (found[std::max(known, 0)] != id)) {
      slot = (slot + 1) & mask;
      known = table[slot];
    }
    found[size] = id;
    const bool is_new = known < 0;
    table[slot] = known = is_new ? size : known;
    size += is_new;
    index[place] = known;
  }
  distinct->resize(size);
}

// The same for ids from `begin` to below `end`, without a hash: faster where the range is small.
template <typename Id, typename Index>
void FindDistinctInRange(const Id* ids, int64_t count, Id begin, Id end, Index* index,
                         std::vector<Id>* distinct) {
  std::vector<int32_t> table(end - begin, -1);  // by id: its place in `distinct`
  distinct->resize(count);
  Id* found = distinct->data();
  int32_t size = 0;
  for (int64_t place = 0; place < count; ++place) {
    const Id id = ids[place];
    int32_t& known = table[id - begin];
    found[size] = id;
    const bool is_new = known < 0;
    known = is_new ? size : known;
    size += is_new;
    index[place] = known;
  }
  distinct->resize(size);
}

// Update rules: new values of the elements of a row and its slots. They are those of TensorFlow's
// ops (https://www.tensorflow.org/api_docs/python/tf/raw_ops, ResourceSparseApply...), with a
// division by a root in place of a product with a reciprocal root.
enum class Rule {
  kSgd,
  kAdagrad,
  kAdagradNoNan,
  kAdagradV2,
  kAdagradDa,
  kProximalAdagrad,
  kProximalSgd,
  kAdadelta,
  kMomentum,
  kKerasMomentum,
  kRmsProp,
  kCenteredRmsProp,
  kFtrl,
  kFtrlV2,
  kFtrlNoNan,
  kAdagradMomentum,
  kLazyAdam,
  kProximalYogi,
  kFrequencyEstimator
};

constexpr int kMaxSlots = 3;

struct Hyperparameters {
  float rate = 0, epsilon = 0, l1 = 0, l2 = 0, shrinkage = 0, power = 0, momentum = 0, rho = 0;
  float beta = 0, beta1 = 0, beta2 = 0, exponent = 0, tau = 0, max_delta = 0, outlier = 0;
  float step = 0;  // global step
  // 1 - beta1 and so on, rounded once.
  float rest1 = 0, rest2 = 0, rest_rho = 0, rest_tau = 0;
  // Flags, of which 0 is false.
  float nesterov = 0, sum_inside_sqrt = 0, linear_has_rate = 0;
};

// What the host's embedding core does to a row besides the rule.
struct Limits {
  bool any = false;
  float least_gradient = 0, largest_gradient = 0, decay = 0, least_weight = 0, largest_weight = 0;
};

// Name of a rule, number of slots, and the hyperparameters that it takes, in this order. The first
// is the learning rate.
struct RuleArguments {
  const char* name;
  Rule rule;
  int num_slots;
  std::vector<float Hyperparameters::*> hyperparameters;
};

inline const std::vector<RuleArguments>& AllRules() {
  using H = Hyperparameters;
  static const auto* const rules = new std::vector<RuleArguments>{
      {"sgd", Rule::kSgd, 0, {&H::rate}},
      {"adagrad", Rule::kAdagrad, 1, {&H::rate}},
      {"adagrad_no_nan", Rule::kAdagradNoNan, 1, {&H::rate}},
      {"adagrad_v2", Rule::kAdagradV2, 1, {&H::rate, &H::epsilon}},
      {"adagrad_da", Rule::kAdagradDa, 2, {&H::rate, &H::l1, &H::l2, &H::step}},
      {"proximal_adagrad", Rule::kProximalAdagrad, 1, {&H::rate, &H::l1, &H::l2}},
      {"proximal_sgd", Rule::kProximalSgd, 0, {&H::rate, &H::l1, &H::l2}},
      {"adadelta", Rule::kAdadelta, 2, {&H::rate, &H::rho, &H::epsilon}},
      {"momentum", Rule::kMomentum, 1, {&H::rate, &H::momentum, &H::nesterov}},
      {"keras_momentum", Rule::kKerasMomentum, 1, {&H::rate, &H::momentum, &H::nesterov}},
      {"rms_prop", Rule::kRmsProp, 2, {&H::rate, &H::rho, &H::momentum, &H::epsilon}},
      {"rms_prop_of_core", Rule::kRmsProp, 2,
       {&H::rate, &H::rho, &H::rest_rho, &H::momentum, &H::epsilon}},
      {"centered_rms_prop", Rule::kCenteredRmsProp, 3,
       {&H::rate, &H::rho, &H::momentum, &H::epsilon}},
      {"ftrl", Rule::kFtrl, 2, {&H::rate, &H::l1, &H::l2, &H::power}},
      {"ftrl_v2", Rule::kFtrlV2, 2, {&H::rate, &H::l1, &H::l2, &H::power, &H::shrinkage}},
      {"ftrl_no_nan", Rule::kFtrlNoNan, 2,
       {&H::rate, &H::l1, &H::l2, &H::power, &H::beta, &H::linear_has_rate}},
      {"adagrad_momentum", Rule::kAdagradMomentum, 2,
       {&H::rate, &H::momentum, &H::exponent, &H::beta2, &H::rest2, &H::epsilon, &H::nesterov}},
      {"lazy_adam", Rule::kLazyAdam, 2,
       {&H::rate, &H::beta1, &H::rest1, &H::beta2, &H::rest2, &H::epsilon, &H::sum_inside_sqrt}},
      {"proximal_yogi", Rule::kProximalYogi, 2,
       {&H::rate, &H::beta1, &H::rest1, &H::rest2, &H::epsilon, &H::l1, &H::l2}},
      {"frequency_estimator", Rule::kFrequencyEstimator, 1,
       {&H::rate, &H::tau, &H::rest_tau, &H::max_delta, &H::outlier}},
  };
  return *rules;
}

// Returns the rule of a name, or null.
inline const RuleArguments* FindRule(const std::string& name) {
  for (const RuleArguments& each : AllRules()) {
    if (name == each.name) return &each;
  }
  return nullptr;
}

// Moves a number towards zero by `limit`, but not past it.
inline float Shrink(float value, float limit) {
  return value - std::min(std::max(value, -limit), limit);
}

// Updates a row of weights `w` and of its slots by a gradient `g`.
template <typename Width>
inline void UpdateRow(Rule rule, const Hyperparameters& h, float* __restrict w,
                      const std::array<float*, kMaxSlots>& slots, const float* __restrict g,
                      Width width) {
  float* __restrict a = slots[0];
  float* __restrict b = slots[1];
  float* __restrict c = slots[2];
  switch (rule) {
    case Rule::kSgd:
      for (int64_t i = 0; i < width; ++i) w[i] -= h.rate * g[i];
      return;
    case Rule::kAdagrad:
      for (int64_t i = 0; i < width; ++i) {
        a[i] += g[i] * g[i];
        w[i] -= h.rate * g[i] / std::sqrt(a[i]);
      }
      return;
    case Rule::kAdagradNoNan:  // with a rate or gradient of zero, a weight stays
      for (int64_t i = 0; i < width; ++i) {
        a[i] += g[i] * g[i];
        const float moved = h.rate * g[i];
        w[i] -= moved == 0.0f ? 0.0f : moved / std::sqrt(a[i]);
      }
      return;
    case Rule::kAdagradV2:
      for (int64_t i = 0; i < width; ++i) {
        a[i] += g[i] * g[i];
        w[i] -= h.rate * g[i] / (std::sqrt(a[i]) + h.epsilon);
      }
      return;
    case Rule::kAdagradDa:  // slots: sums of gradients, and of their squares
      for (int64_t i = 0; i < width; ++i) {
        a[i] += g[i];
        b[i] += g[i] * g[i];
        const float shrunk = h.l1 > 0.0f ? Shrink(a[i], h.l1 * h.step) : a[i];
        w[i] = -h.rate * shrunk / (h.l2 * (h.step * h.rate) + std::sqrt(b[i]));
      }
      return;
    case Rule::kProximalAdagrad:
      for (int64_t i = 0; i < width; ++i) {
        a[i] += g[i] * g[i];
        const float rate = h.rate / std::sqrt(a[i]);
        const float moved = w[i] - g[i] * rate;
        const float shrunk = h.l1 > 0.0f ? Shrink(moved, rate * h.l1) : moved;
        w[i] = shrunk / (1.0f + h.l2 * rate);
      }
      return;
    case Rule::kProximalSgd:
      for (int64_t i = 0; i < width; ++i) {
        const float moved = w[i] - g[i] * h.rate;
        const float shrunk = h.l1 > 0.0f ? Shrink(moved, h.rate * h.l1) : moved;
        w[i] = shrunk / (1.0f + h.l2 * h.rate);
      }
      return;
    case Rule::kAdadelta:  // slots: averages of squared gradients, and of squared updates
      for (int64_t i = 0; i < width; ++i) {
        a[i] = a[i] * h.rho + g[i] * g[i] * h.rest_rho;
        const float update = std::sqrt(b[i] + h.epsilon) / std::sqrt(a[i] + h.epsilon) * g[i];
        w[i] -= update * h.rate;
        b[i] = b[i] * h.rho + update * update * h.rest_rho;
      }
      return;
    case Rule::kMomentum:
      for (int64_t i = 0; i < width; ++i) {
        a[i] = a[i] * h.momentum + g[i];
        w[i] -= h.nesterov != 0.0f ? g[i] * h.rate + a[i] * h.momentum * h.rate : a[i] * h.rate;
      }
      return;
    case Rule::kKerasMomentum:
      for (int64_t i = 0; i < width; ++i) {
        a[i] = a[i] * h.momentum - g[i] * h.rate;
        w[i] += h.nesterov != 0.0f ? a[i] * h.momentum - g[i] * h.rate : a[i];
      }
      return;
    case Rule::kRmsProp:  // slots: averages of squared gradients, momentum
      for (int64_t i = 0; i < width; ++i) {
        a[i] = a[i] * h.rho + g[i] * g[i] * h.rest_rho;
        b[i] = b[i] * h.momentum + h.rate * g[i] / std::sqrt(a[i] + h.epsilon);
        w[i] -= b[i];
      }
      return;
    case Rule::kCenteredRmsProp:  // slots: averages of gradients, of their squares, momentum
      for (int64_t i = 0; i < width; ++i) {
        b[i] = b[i] * h.rho + g[i] * g[i] * h.rest_rho;
        a[i] = a[i] * h.rho + g[i] * h.rest_rho;
        const float spread = b[i] + h.epsilon - a[i] * a[i];
        c[i] = c[i] * h.momentum + h.rate * g[i] / std::sqrt(spread);
        w[i] -= c[i];
      }
      return;
    case Rule::kFtrl:
    case Rule::kFtrlV2:  // slots: accumulator, linear
      for (int64_t i = 0; i < width; ++i) {
        const float old_a = a[i];
        const float new_a = old_a + g[i] * g[i];
        float root, new_root;
        if (h.power == -0.5f) {
          root = std::sqrt(old_a);
          new_root = std::sqrt(new_a);
        } else {
          root = std::pow(old_a, -h.power);
          new_root = std::pow(new_a, -h.power);
        }
        // Not with a shrinkage of 0: times an infinite weight it would be NaN.
        const float in_linear =
            rule == Rule::kFtrl ? g[i] : g[i] + 2.0f * h.shrinkage * w[i];
        b[i] = b[i] + in_linear - (new_root - root) / h.rate * w[i];
        const float curvature = new_root / h.rate + 2.0f * h.l2;
        const float clipped = std::min(std::max(b[i], -h.l1), h.l1);
        w[i] = (clipped - b[i]) / curvature;
        a[i] = new_a;
      }
      return;
    case Rule::kFtrlNoNan:  // slots as above; defined for a rate of 0 where the slot has it
      for (int64_t i = 0; i < width; ++i) {
        const float new_a = a[i] + g[i] * g[i];
        float root, new_root;
        if (h.power == -0.5f) {
          root = std::sqrt(a[i]);
          new_root = std::sqrt(new_a);
        } else {
          root = std::pow(a[i], -h.power);
          new_root = std::pow(new_a, -h.power);
        }
        float l1 = h.l1, curvature;
        if (h.linear_has_rate != 0.0f) {
          b[i] = b[i] + h.rate * g[i] - (new_root - root) * w[i];
          l1 *= h.rate;
          curvature = new_root + 2.0f * h.rate * h.l2 + h.beta;
        } else {
          b[i] = b[i] + g[i] - (new_root - root) / h.rate * w[i];
          curvature = (new_root + h.beta) / h.rate + 2.0f * h.l2;
        }
        const float shrunk = std::min(std::max(b[i], -l1), l1) - b[i];
        w[i] = curvature == 0.0f ? 0.0f : shrunk / curvature;
        a[i] = new_a;
      }
      return;
    case Rule::kAdagradMomentum:  // slots: accumulator, momentum
      for (int64_t i = 0; i < width; ++i) {
        a[i] = h.beta2 == 1.0f ? a[i] + g[i] * g[i]
                               : h.beta2 * a[i] + h.rest2 * g[i] * g[i];
        const float scaled = std::pow(a[i] + h.epsilon, -1.0f / h.exponent);
        b[i] = h.momentum * b[i] + scaled;
        w[i] -= h.rate * g[i] * (h.nesterov != 0.0f ? h.momentum * b[i] + scaled : b[i]);
      }
      return;
    case Rule::kLazyAdam:  // slots: averages of gradients, and of their squares
      for (int64_t i = 0; i < width; ++i) {
        a[i] = h.beta1 * a[i] + h.rest1 * g[i];
        b[i] = h.beta2 * b[i] + h.rest2 * g[i] * g[i];
        const float divisor = h.sum_inside_sqrt != 0.0f
                                  ? std::sqrt(b[i] + h.epsilon * h.epsilon)
                                  : std::sqrt(b[i]) + h.epsilon;
        w[i] -= h.rate * (a[i] / divisor);
      }
      return;
    case Rule::kProximalYogi:  // slots: averages of squared gradients, and of gradients
      for (int64_t i = 0; i < width; ++i) {
        const float square = g[i] * g[i];
        const float above = a[i] - square;
        const float sign = static_cast<float>((above > 0.0f) - (above < 0.0f));
        a[i] -= h.rest2 * sign * square;
        b[i] = h.beta1 * b[i] + h.rest1 * g[i];
        const float rate = h.rate / (std::sqrt(a[i]) + h.epsilon);
        const float moved = w[i] - rate * b[i];
        const float shrunk = h.l1 > 0.0f ? Shrink(moved, rate * h.l1) : moved;
        w[i] = shrunk / (1.0f + rate * h.l2);
      }
      return;
    case Rule::kFrequencyEstimator:  // slot: step of the last occurrence
      for (int64_t i = 0; i < width; ++i) {
        const float since = h.step - a[i];
        const float capped = std::min(since, h.max_delta);
        w[i] = since >= h.outlier * w[i] ? capped : w[i] * h.rest_tau + capped * h.tau;
        a[i] = h.step;
      }
      return;
  }
}

// The same between a limit of the gradient, and weight decay and limits of the weights.
template <typename Width>
inline void UpdateRowWithin(const Limits& limits, Rule rule, const Hyperparameters& h,
                            float* __restrict w, const std::array<float*, kMaxSlots>& slots,
                            const float* __restrict g, Width width,
                            std::vector<float>* buffer) {
  buffer->resize(2 * width);
  float* clipped = buffer->data();
  float* before = clipped + width;
  for (int64_t i = 0; i < width; ++i) {
    clipped[i] = std::min(std::max(g[i], limits.least_gradient), limits.largest_gradient);
    before[i] = w[i];
  }
  UpdateRow(rule, h, w, slots, clipped, width);
  for (int64_t i = 0; i < width; ++i) {
    const float decayed = limits.decay == 0.0f ? w[i] : w[i] - limits.decay * before[i];
    w[i] = std::min(std::max(decayed, limits.least_weight), limits.largest_weight);
  }
}

// Also compiled for wider vectors, with all functions that are called, and a processor that has them
// uses these. The numbers are the same.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define TPU_COLUMNS_WIDE_VECTORS __attribute__((target_clones("avx2", "default"), flatten))
#else
#define TPU_COLUMNS_WIDE_VECTORS
#endif

// Updates rows of a table and of its slots, each of which has a gradient.
TPU_COLUMNS_WIDE_VECTORS
void UpdateRows(Rule rule, const Hyperparameters& h, const Limits& limits, float* weights,
                const std::array<float*, kMaxSlots>& slots, const std::vector<int64_t>& rows,
                const std::vector<const float*>& gradients, int64_t width) {
  const int64_t count = rows.size();
  std::vector<float> buffer;
  const auto update = [&](auto width) {
    for (int64_t place = 0; place < count; ++place) {
      if (place + kAhead < count) {
        const int64_t later = rows[place + kAhead] * width;
        Prefetch(weights + later, width);
        for (const float* slot : slots) {
          if (slot) Prefetch(slot + later, width);
        }
      }
      const int64_t offset = rows[place] * width;
      std::array<float*, kMaxSlots> slots_of_row{};
      for (int number = 0; number < kMaxSlots; ++number) {
        if (slots[number]) slots_of_row[number] = slots[number] + offset;
      }
      if (limits.any) {
        UpdateRowWithin(limits, rule, h, weights + offset, slots_of_row, gradients[place], width,
                        &buffer);
      } else {
        UpdateRow(rule, h, weights + offset, slots_of_row, gradients[place], width);
      }
    }
  };
  WithWidth(width, update);
}

// Makes sure that no other tensor shares the variable's memory, as TensorFlow's sparse updates do.
tensorflow::Status MakeWritable(OpKernelContext* context, Var* variable) {
  if (variable->copy_on_read_mode.load()) return tensorflow::Status();
  Tensor* tensor = variable->tensor();
  if (!tensor->RefCountIsOne()) {
    Tensor copy;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
    std::memcpy(copy.flat<float>().data(), tensor->flat<float>().data(),
                sizeof(float) * tensor->NumElements());
    *tensor = copy;
  }
  variable->copy_on_read_mode.store(true);
  return tensorflow::Status();
}

// Checks that attributes have `count` elements each.
inline Status CheckSizes(std::initializer_list<const std::vector<int64_t>*> attributes,
                         size_t count) {
  for (const std::vector<int64_t>* each : attributes) {
    if (each->size() != count) {
      return InvalidArgument("an attribute has ", each->size(), " elements, expected ", count);
    }
  }
  return tensorflow::Status();
}

// Locked variables of type float32, which an op reads or writes.
class LockedVariables {
 public:
  // Locks the variables whose handles are inputs `first` and following; a failure is the op's.
  bool Lock(OpKernelContext* context, int first, int count, bool to_write) {
    variables_.resize(count);
    std::vector<mutex*> mutexes;
    for (int place = 0; place < count; ++place) {
      const auto status = tensorflow::LookupResource(
          context, tensorflow::HandleFromInput(context, first + place), &variables_[place]);
      if (!status.ok()) {
        context->SetStatus(status);
        return false;
      }
      mutexes.push_back(variables_[place]->mu());
    }
    // In the order of their addresses, so that two ops can't wait for each other.
    std::sort(mutexes.begin(), mutexes.end());
    mutexes.erase(std::unique(mutexes.begin(), mutexes.end()), mutexes.end());
    for (mutex* each : mutexes) {
      if (to_write) {
        exclusive_.push_back(std::make_unique<mutex_lock>(*each));
      } else {
        shared_.push_back(std::make_unique<tf_shared_lock>(*each));
      }
    }
    for (RefCountPtr<Var>& variable : variables_) {
      auto status = variable->is_initialized
                        ? tensorflow::Status()
                        : tensorflow::errors::FailedPrecondition("A table or slot is not initialized.");
      if (status.ok() && variable->tensor()->dtype() != tensorflow::DT_FLOAT) {
        status = InvalidArgument("a table or slot is not float");
      }
      if (status.ok() && to_write) status = MakeWritable(context, variable.get());
      if (!status.ok()) {
        context->SetStatus(status);
        return false;
      }
    }
    return true;
  }

  Tensor& operator[](int place) { return *variables_[place]->tensor(); }

  int64_t num_bytes() {
    int64_t sum = 0;
    for (RefCountPtr<Var>& variable : variables_) sum += variable->tensor()->TotalBytes();
    return sum;
  }

 private:
  // Declared first, so that the locks are released before the variables.
  std::vector<RefCountPtr<Var>> variables_;
  std::vector<std::unique_ptr<mutex_lock>> exclusive_;
  std::vector<std::unique_ptr<tf_shared_lock>> shared_;
};

}  // namespace
}  // namespace tpu_columns

#endif  // TPU_COLUMNS_ROWS_H_
