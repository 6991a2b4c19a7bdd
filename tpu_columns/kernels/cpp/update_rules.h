// SPDX-License-Identifier: Apache-2.0
//
// Update rules of optimizers. Needs no TensorFlow.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "rows.h"

namespace tpu_columns {
namespace {

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

struct Hyperparameters {
  float rate = 0, epsilon = 0, l1 = 0, l2 = 0, shrinkage = 0, power = 0, momentum = 0, rho = 0;
  float beta = 0, beta1 = 0, beta2 = 0, exponent = 0, tau = 0, max_delta = 0, outlier = 0;
  float step = 0;  // global step
  // 1 - beta1 and so on, subtracted in float32 as a TPU and TensorFlow's kernels do.
  float rest1 = 0, rest2 = 0, rest_rho = 0, rest_tau = 0;
  // Flags, of which 0 is false.
  float nesterov = 0, sum_inside_sqrt = 0, linear_has_rate = 0;

  // To call when the others are set.
  void SetRests() {
    rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
    rest_rho = 1.0f - rho, rest_tau = 1.0f - tau;
  }
};

// What the host's embedding core does to an element besides the rule.
struct Limits {
  bool any = false;
  float least_gradient = 0, largest_gradient = 0, decay = 0, least_weight = 0, largest_weight = 0;
  bool decay_has_rate = false;

  // Returns the limits of a step with a learning rate.
  Limits At(float rate) const {
    Limits result = *this;
    if (decay_has_rate) result.decay *= rate;
    return result;
  }
};

constexpr int kMaxSlots = 3;
constexpr int kMaxHyperparameters = 6;

struct RuleArguments {
  const char* name;
  Rule rule;
  int num_slots;
  // What the rule takes, in this order, of which the rate is the first; null members follow.
  float Hyperparameters::* hyperparameters[kMaxHyperparameters];

  constexpr int num_hyperparameters() const {
    int count = 0;
    while (count < kMaxHyperparameters && hyperparameters[count] != nullptr) ++count;
    return count;
  }
};

using H = Hyperparameters;

// clang-format off: it would take four lines for a rule.
constexpr RuleArguments kRules[] = {
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
    {"centered_rms_prop", Rule::kCenteredRmsProp, 3,
     {&H::rate, &H::rho, &H::momentum, &H::epsilon}},
    {"ftrl", Rule::kFtrl, 2, {&H::rate, &H::l1, &H::l2, &H::power}},
    {"ftrl_v2", Rule::kFtrlV2, 2, {&H::rate, &H::l1, &H::l2, &H::power, &H::shrinkage}},
    {"ftrl_no_nan", Rule::kFtrlNoNan, 2,
     {&H::rate, &H::l1, &H::l2, &H::power, &H::beta, &H::linear_has_rate}},
    {"adagrad_momentum", Rule::kAdagradMomentum, 2,
     {&H::rate, &H::momentum, &H::exponent, &H::beta2, &H::epsilon, &H::nesterov}},
    {"lazy_adam", Rule::kLazyAdam, 2,
     {&H::rate, &H::beta1, &H::beta2, &H::epsilon, &H::sum_inside_sqrt}},
    {"proximal_yogi", Rule::kProximalYogi, 2,
     {&H::rate, &H::beta1, &H::beta2, &H::epsilon, &H::l1, &H::l2}},
    {"frequency_estimator", Rule::kFrequencyEstimator, 1,
     {&H::rate, &H::tau, &H::max_delta, &H::outlier}},
    {"frequency_estimator_at_step", Rule::kFrequencyEstimator, 1,
     {&H::rate, &H::tau, &H::max_delta, &H::outlier, &H::step}},
};
// clang-format on

// Returns the rule of a name, or null.
inline const RuleArguments* FindRule(const std::string& name) {
  for (const RuleArguments& each : kRules) {
    if (name == each.name) return &each;
  }
  return nullptr;
}

constexpr int NumSlots(Rule rule) {
  for (const RuleArguments& each : kRules) {
    if (each.rule == rule) return each.num_slots;
  }
  return 0;
}

// Moves a number towards zero by `limit`, but not past it.
inline float Shrink(float value, float limit) {
  return value - std::min(std::max(value, -limit), limit);
}

// Updates a weight `w`, and its slots `a`, `b` and `c` as far as the rule has them, by a gradient
// `g`. The rules are those of TensorFlow's ops
// (https://www.tensorflow.org/api_docs/python/tf/raw_ops, ResourceSparseApply...), with a division
// by a root in place of a product with a reciprocal root; from `kFtrlNoNan` on, and
// `kAdagradNoNan`, those of estimator_spec/core/cores/update_rules.py.
template <Rule kRule>
inline void UpdateElement(const Hyperparameters& h, float g, float& w, float& a, float& b,
                          float& c) {
  switch (kRule) {
    case Rule::kSgd: w -= h.rate * g; return;
    case Rule::kAdagrad:
      a += g * g;
      w -= h.rate * g / std::sqrt(a);
      return;
    case Rule::kAdagradNoNan: {  // with a rate or gradient of zero, a weight stays
      a += g * g;
      const float moved = h.rate * g;
      w -= moved == 0.0f ? 0.0f : moved / std::sqrt(a);
      return;
    }
    case Rule::kAdagradV2:
      a += g * g;
      w -= h.rate * g / (std::sqrt(a) + h.epsilon);
      return;
    case Rule::kAdagradDa: {  // slots: sums of gradients, and of their squares
      a += g;
      b += g * g;
      const float shrunk = h.l1 > 0.0f ? Shrink(a, h.l1 * h.step) : a;
      w = -h.rate * shrunk / (h.l2 * (h.step * h.rate) + std::sqrt(b));
      return;
    }
    case Rule::kProximalAdagrad: {
      a += g * g;
      const float rate = h.rate / std::sqrt(a);
      const float moved = w - g * rate;
      const float shrunk = h.l1 > 0.0f ? Shrink(moved, rate * h.l1) : moved;
      w = shrunk / (1.0f + h.l2 * rate);
      return;
    }
    case Rule::kProximalSgd: {
      const float moved = w - g * h.rate;
      const float shrunk = h.l1 > 0.0f ? Shrink(moved, h.rate * h.l1) : moved;
      w = shrunk / (1.0f + h.l2 * h.rate);
      return;
    }
    case Rule::kAdadelta: {  // slots: averages of squared gradients, and of squared updates
      a = a * h.rho + g * g * h.rest_rho;
      const float update = std::sqrt(b + h.epsilon) / std::sqrt(a + h.epsilon) * g;
      w -= update * h.rate;
      b = b * h.rho + update * update * h.rest_rho;
      return;
    }
    case Rule::kMomentum:
      a = a * h.momentum + g;
      w -= h.nesterov != 0.0f ? g * h.rate + a * h.momentum * h.rate : a * h.rate;
      return;
    case Rule::kKerasMomentum:
      a = a * h.momentum - g * h.rate;
      w += h.nesterov != 0.0f ? a * h.momentum - g * h.rate : a;
      return;
    case Rule::kRmsProp:  // slots: average of squared gradients, momentum
      a = a * h.rho + g * g * h.rest_rho;
      b = b * h.momentum + h.rate * g / std::sqrt(a + h.epsilon);
      w -= b;
      return;
    case Rule::kCenteredRmsProp:  // slots: averages of gradients and of their squares, momentum
      b = b * h.rho + g * g * h.rest_rho;
      a = a * h.rho + g * h.rest_rho;
      c = c * h.momentum + h.rate * g / std::sqrt(b + h.epsilon - a * a);
      w -= c;
      return;
    case Rule::kFtrl:
    case Rule::kFtrlV2:
    case Rule::kFtrlNoNan: {  // slots: accumulator, linear
      const float new_a = a + g * g;
      const bool is_root = h.power == -0.5f;
      const float root = is_root ? std::sqrt(a) : std::pow(a, -h.power);
      const float new_root = is_root ? std::sqrt(new_a) : std::pow(new_a, -h.power);
      a = new_a;
      if (kRule == Rule::kFtrlNoNan && h.linear_has_rate != 0.0f) {  // defined for a rate of 0
        b = b + h.rate * g - (new_root - root) * w;
        const float curvature = new_root + 2.0f * h.rate * h.l2 + h.beta;
        const float shrunk = -Shrink(b, h.l1 * h.rate);
        w = curvature == 0.0f ? 0.0f : shrunk / curvature;
        return;
      }
      // Not with a shrinkage of 0: times an infinite weight it would be NaN.
      const float in_linear = kRule == Rule::kFtrlV2 ? g + 2.0f * h.shrinkage * w : g;
      b = b + in_linear - (new_root - root) / h.rate * w;
      const float curvature = (new_root + h.beta) / h.rate + 2.0f * h.l2;
      const float shrunk = -Shrink(b, h.l1);
      w = kRule == Rule::kFtrlNoNan && curvature == 0.0f ? 0.0f : shrunk / curvature;
      return;
    }
    case Rule::kAdagradMomentum: {  // slots: accumulator, momentum
      a = h.beta2 == 1.0f ? a + g * g : h.beta2 * a + h.rest2 * g * g;
      const float scaled = std::pow(a + h.epsilon, -1.0f / h.exponent) * g;
      b = h.momentum * b + scaled;
      w -= h.rate * (h.nesterov != 0.0f ? h.momentum * b + scaled : b);
      return;
    }
    case Rule::kLazyAdam: {  // slots: averages of gradients, and of their squares
      a = h.beta1 * a + h.rest1 * g;
      b = h.beta2 * b + h.rest2 * g * g;
      const float divisor = h.sum_inside_sqrt != 0.0f ? std::sqrt(b + h.epsilon * h.epsilon)
                                                      : std::sqrt(b) + h.epsilon;
      w -= h.rate * (a / divisor);
      return;
    }
    case Rule::kProximalYogi: {  // slots: averages of squared gradients, and of gradients
      const float square = g * g, above = a - square;
      const float sign = static_cast<float>(above > 0.0f) - static_cast<float>(above < 0.0f);
      a -= h.rest2 * sign * square;
      b = h.beta1 * b + h.rest1 * g;
      const float rate = h.rate / (std::sqrt(a) + h.epsilon);
      const float moved = w - rate * b;
      const float shrunk = h.l1 > 0.0f ? Shrink(moved, rate * h.l1) : moved;
      w = shrunk / (1.0f + rate * h.l2);
      return;
    }
    case Rule::kFrequencyEstimator: {  // slot: step of the last occurrence
      const float since = h.step - a;
      const float capped = std::min(since, h.max_delta);
      w = since >= h.outlier * w ? capped : w * h.rest_tau + capped * h.tau;
      a = h.step;
      return;
    }
  }
}

// Updates a row of weights and of its slots.
template <Rule kRule, bool kIsLimited, typename Width>
inline void UpdateRow(const Hyperparameters& h, const Limits& limits, float* __restrict w,
                      float* __restrict a, float* __restrict b, float* __restrict c,
                      const float* __restrict g, Width width) {
  constexpr int kSlots = NumSlots(kRule);
  for (int64_t i = 0; i < width; ++i) {
    float unused = 0, gradient = g[i];
    const float before = w[i];
    if (kIsLimited) {
      gradient = std::min(std::max(gradient, limits.least_gradient), limits.largest_gradient);
    }
    UpdateElement<kRule>(h, gradient, w[i], kSlots > 0 ? a[i] : unused, kSlots > 1 ? b[i] : unused,
                         kSlots > 2 ? c[i] : unused);
    if (kIsLimited) {
      const float decayed = limits.decay == 0.0f ? w[i] : w[i] - limits.decay * before;
      w[i] = std::min(std::max(decayed, limits.least_weight), limits.largest_weight);
    }
  }
}

// Calls `work` with a rule as a constant.
template <typename Work>
inline void WithRule(Rule rule, const Work& work) {
  switch (rule) {
#define TPU_COLUMNS_CASE(name) \
  case Rule::name: return work(std::integral_constant<Rule, Rule::name>())
    TPU_COLUMNS_CASE(kSgd);
    TPU_COLUMNS_CASE(kAdagrad);
    TPU_COLUMNS_CASE(kAdagradNoNan);
    TPU_COLUMNS_CASE(kAdagradV2);
    TPU_COLUMNS_CASE(kAdagradDa);
    TPU_COLUMNS_CASE(kProximalAdagrad);
    TPU_COLUMNS_CASE(kProximalSgd);
    TPU_COLUMNS_CASE(kAdadelta);
    TPU_COLUMNS_CASE(kMomentum);
    TPU_COLUMNS_CASE(kKerasMomentum);
    TPU_COLUMNS_CASE(kRmsProp);
    TPU_COLUMNS_CASE(kCenteredRmsProp);
    TPU_COLUMNS_CASE(kFtrl);
    TPU_COLUMNS_CASE(kFtrlV2);
    TPU_COLUMNS_CASE(kFtrlNoNan);
    TPU_COLUMNS_CASE(kAdagradMomentum);
    TPU_COLUMNS_CASE(kLazyAdam);
    TPU_COLUMNS_CASE(kProximalYogi);
    TPU_COLUMNS_CASE(kFrequencyEstimator);
#undef TPU_COLUMNS_CASE
  }
}

// Returns whether a rule is used so much that it has loops over a constant width.
constexpr bool IsCommon(Rule rule) {
  return rule == Rule::kSgd || rule == Rule::kAdagrad || rule == Rule::kAdagradNoNan ||
         rule == Rule::kAdagradV2 || rule == Rule::kFtrl || rule == Rule::kLazyAdam;
}

// Also compiled for wider vectors, with all functions that are called, and a processor that has
// them uses these. The numbers are the same.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define TPU_COLUMNS_WIDE_VECTORS __attribute__((target_clones("avx2", "default"), flatten))
#else
#define TPU_COLUMNS_WIDE_VECTORS
#endif

// A table and its slots, which have the same shape.
struct Table {
  float* weights;
  std::array<float*, kMaxSlots> slots;  // null after those that the rule has
  int64_t num_rows, width;
};

// Updates rows of a table and of its slots, each of which has a gradient.
TPU_COLUMNS_WIDE_VECTORS
void UpdateRows(Rule rule, const Hyperparameters& hyperparameters, const Limits& limits,
                const Table& table, const std::vector<int64_t>& rows,
                const std::vector<const float*>& gradients) {
  const Hyperparameters h = hyperparameters;  // in registers: no store can change it
  const int64_t count = rows.size(), width = table.width;
  float *const weights = table.weights, *const first = table.slots[0],
               *const second = table.slots[1], *const third = table.slots[2];
  const auto update = [&](auto rule, auto is_limited, auto width) {
    constexpr int kSlots = NumSlots(rule());
    for (int64_t place = 0; place < count; ++place) {
      if (place + kAhead < count) {
        const int64_t later = rows[place + kAhead] * width;
        Prefetch(weights + later, width);
        if (kSlots > 0) Prefetch(first + later, width);
        if (kSlots > 1) Prefetch(second + later, width);
        if (kSlots > 2) Prefetch(third + later, width);
      }
      const int64_t offset = rows[place] * width;
      UpdateRow<rule(), is_limited()>(
          h, limits, weights + offset, kSlots > 0 ? first + offset : nullptr,
          kSlots > 1 ? second + offset : nullptr, kSlots > 2 ? third + offset : nullptr,
          gradients[place], width);
    }
  };
  WithRule(rule, [&](auto rule) {
    if (limits.any) {
      update(rule, std::true_type(), width);
    } else if constexpr (IsCommon(rule())) {
      WithWidth(width, [&](auto width) { update(rule, std::false_type(), width); });
    } else {
      update(rule, std::false_type(), width);
    }
  });
}

}  // namespace
}  // namespace tpu_columns
