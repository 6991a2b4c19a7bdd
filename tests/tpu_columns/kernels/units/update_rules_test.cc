// SPDX-License-Identifier: Apache-2.0
//
// The rules are compared with their formulas in double precision.

#include "update_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "check.h"

namespace tpu_columns {
namespace {

constexpr int kNumElements = 132;  // 12 * 11
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A weight and its slots, or arrays of them.
template <typename Value>
struct Variables {
  Value w, a, b, c;
};

double Soft(double value, double limit) {
  return std::copysign(std::max(std::abs(value) - limit, 0.0), value);
}

// Updates an element by the formula of a rule.
void UpdateByFormula(const std::string& rule, const Hyperparameters& h, double g,
                     Variables<double>* element) {
  auto& [w, a, b, c] = *element;
  const double r = h.rate, epsilon = h.epsilon, l1 = h.l1, l2 = h.l2, m = h.momentum, rho = h.rho;
  const double beta1 = h.beta1, beta2 = h.beta2, step = h.step;
  if (rule == "sgd") {
    w -= r * g;
  } else if (rule == "adagrad" || rule == "adagrad_no_nan") {
    a += g * g;
    w -= r * g / std::sqrt(a);
  } else if (rule == "adagrad_v2") {
    a += g * g;
    w -= r * g / (std::sqrt(a) + epsilon);
  } else if (rule == "adagrad_da") {
    a += g;
    b += g * g;
    w = -r * Soft(a, l1 * step) / (l2 * step * r + std::sqrt(b));
  } else if (rule == "proximal_adagrad" || rule == "proximal_sgd") {
    a += g * g;
    const double rate = rule == "proximal_sgd" ? r : r / std::sqrt(a);
    w = Soft(w - rate * g, rate * l1) / (1 + rate * l2);
  } else if (rule == "adadelta") {
    a = rho * a + (1 - rho) * g * g;
    const double change = std::sqrt((b + epsilon) / (a + epsilon)) * g;
    b = rho * b + (1 - rho) * change * change;
    w -= r * change;
  } else if (rule == "momentum") {
    a = m * a + g;
    w -= r * (h.nesterov != 0 ? g + m * a : a);
  } else if (rule == "keras_momentum") {
    a = m * a - r * g;
    w += h.nesterov != 0 ? m * a - r * g : a;
  } else if (rule == "rms_prop") {
    a = rho * a + (1 - rho) * g * g;
    b = m * b + r * g / std::sqrt(a + epsilon);
    w -= b;
  } else if (rule == "centered_rms_prop") {
    a = rho * a + (1 - rho) * g;
    b = rho * b + (1 - rho) * g * g;
    c = m * c + r * g / std::sqrt(b - a * a + epsilon);
    w -= c;
  } else if (rule.compare(0, 4, "ftrl") == 0) {
    // A linear slot that has the rate is that of the others times the rate.
    const double unit = h.linear_has_rate != 0 ? r : 1;
    const double old_root = std::pow(a, -h.power);
    a += g * g;
    const double root = std::pow(a, -h.power);
    const double shrinkage = rule == "ftrl_v2" ? 2 * h.shrinkage * w : 0;
    const double linear = b / unit + g + shrinkage - (root - old_root) / r * w;
    b = linear * unit;
    w = -Soft(linear, l1) / ((root + h.beta) / r + 2 * l2);
  } else if (rule == "adagrad_momentum") {
    a = h.beta2 == 1 ? a + g * g : beta2 * a + (1 - beta2) * g * g;
    const double scaled = g / std::pow(a + epsilon, 1 / static_cast<double>(h.exponent));
    b = m * b + scaled;
    w -= r * (h.nesterov != 0 ? m * b + scaled : b);
  } else if (rule == "lazy_adam") {
    a = beta1 * a + (1 - beta1) * g;
    b = beta2 * b + (1 - beta2) * g * g;
    w -= r * a /
         (h.sum_inside_sqrt != 0 ? std::sqrt(b + epsilon * epsilon) : std::sqrt(b) + epsilon);
  } else if (rule == "proximal_yogi") {
    a += (a < g * g ? 1 - beta2 : beta2 - 1) * g * g;
    b = beta1 * b + (1 - beta1) * g;
    const double rate = r / (std::sqrt(a) + epsilon);
    w = Soft(w - rate * b, rate * l1) / (1 + rate * l2);
  } else {  // frequency estimators
    const double since = step - a, capped = std::min<double>(since, h.max_delta);
    w = since >= h.outlier * w ? capped : (1 - h.tau) * w + h.tau * capped;
    a = step;
  }
}

// Draws what a rule takes, and leaves the others 0, the step aside.
Hyperparameters Draw(const RuleArguments& rule, std::mt19937* random) {
  std::uniform_real_distribution<float> fraction(0.1f, 0.9f);
  Hyperparameters h;
  h.step = 3;
  for (int place = 0; place < rule.num_hyperparameters(); ++place) {
    h.*rule.hyperparameters[place] = fraction(*random);
  }
  for (float* flag : {&h.nesterov, &h.sum_inside_sqrt, &h.linear_has_rate}) {
    *flag = *flag > 0.5f ? 1.0f : 0.0f;
  }
  if (h.power != 0) h.power = h.power > 0.5f ? -0.5f : -0.3f;
  if (h.beta2 > 0.7f) h.beta2 = 1;
  h.SetRests();
  return h;
}

using Arrays = Variables<std::vector<float>>;

// Updates every row but the first of a table of some width.
Arrays Update(const RuleArguments& rule, const Hyperparameters& h, const Limits& limits,
              const std::vector<float>& gradient, Arrays variables, int64_t width) {
  std::vector<int64_t> rows;
  std::vector<const float*> gradients;
  for (int64_t row = kNumElements / width - 1; row > 0; --row) {
    rows.push_back(row);
    gradients.push_back(&gradient[static_cast<size_t>(row * width)]);
  }
  auto& [w, a, b, c] = variables;
  std::array<float*, kMaxSlots> slots{a.data(), b.data(), c.data()};
  std::fill(slots.begin() + rule.num_slots, slots.end(), nullptr);
  UpdateRows(rule.rule, h, limits, {w.data(), slots, kNumElements / width, width}, rows, gradients);
  return variables;
}

bool AreNear(double value, double expected) {
  return std::abs(value - expected) <= 2e-5 * std::max(1.0, std::abs(expected));
}

void TestRule(const RuleArguments& rule, std::mt19937* random) {
  const Hyperparameters h = Draw(rule, random);
  std::normal_distribution<float> normal;
  // The square of the first slot is below the second one, as that of a mean is below a mean square.
  std::uniform_real_distribution<float> first_slot(0.1f, 0.5f), slot(0.5f, 1.0f);
  std::vector<float> gradient;
  Arrays before;
  for (int place = 0; place < kNumElements; ++place) {
    gradient.push_back(normal(*random));
    before.w.push_back(normal(*random));
    before.a.push_back(first_slot(*random));
    before.b.push_back(slot(*random));
    before.c.push_back(slot(*random));
  }
  const Arrays after = Update(rule, h, Limits(), gradient, before, 11);
  CHECK(std::equal(before.w.begin(), before.w.begin() + 11, after.w.begin()));
  for (size_t place = 11; place < kNumElements; ++place) {
    Variables<double> expected{before.w[place], before.a[place], before.b[place], before.c[place]};
    UpdateByFormula(rule.name, h, gradient[place], &expected);
    CHECK(AreNear(after.w[place], expected.w));
    CHECK(rule.num_slots < 1 || AreNear(after.a[place], expected.a));
    CHECK(rule.num_slots < 2 || AreNear(after.b[place], expected.b));
    CHECK(rule.num_slots < 3 || AreNear(after.c[place], expected.c));
  }
  // The same numbers in rows of another width, with limits that change nothing, too.
  Limits limits;
  limits.any = true;
  limits.least_gradient = limits.least_weight = -kInfinity;
  limits.largest_gradient = limits.largest_weight = kInfinity;
  for (const int64_t width : {1, 4, 11, 12, 33}) {
    for (const Limits& each : {Limits(), limits}) {
      const Arrays found = Update(rule, h, each, gradient, before, width);
      for (const auto member : {&Arrays::w, &Arrays::a, &Arrays::b, &Arrays::c}) {
        const auto &values = found.*member, &expected = after.*member;
        CHECK(std::equal(values.begin() + 33, values.end(), expected.begin() + 33));
      }
    }
  }
  if (num_failures > 0) std::printf("rule %s\n", rule.name);
}

// Returns a weight after an update.
float UpdateOne(const std::string& name, const Hyperparameters& h, const Limits& limits, float w,
                float accumulator, float gradient) {
  const RuleArguments* rule = FindRule(name);
  Table table{&w, {}, 1, 1};
  std::vector<float> slots{accumulator, 0, 0};
  for (int slot = 0; slot < rule->num_slots; ++slot) {
    table.slots[static_cast<size_t>(slot)] = &slots[static_cast<size_t>(slot)];
  }
  UpdateRows(rule->rule, h, limits, table, {0}, {&gradient});
  return w;
}

void TestDivisionsByZero() {
  Hyperparameters h;
  h.rate = 0.5f;
  h.power = -0.5f;
  CHECK(UpdateOne("adagrad_no_nan", h, Limits(), 3, 0, 0) == 3);
  CHECK(std::isnan(UpdateOne("adagrad", h, Limits(), 3, 0, 0)));
  CHECK(UpdateOne("ftrl_no_nan", h, Limits(), 3, 0, 0) == 0);
  h.linear_has_rate = 1;
  CHECK(UpdateOne("ftrl_no_nan", h, Limits(), 3, 0, 0) == 0);
}

void TestLimits() {
  Hyperparameters h;
  h.rate = 0.5f;
  Limits limits;
  limits.any = true;
  limits.least_gradient = -1, limits.largest_gradient = 2;
  limits.least_weight = -4, limits.largest_weight = 5;
  const auto update = [&](float w, float gradient) {
    return UpdateOne("sgd", h, limits.At(h.rate), w, 0, gradient);
  };
  CHECK(update(1, 100) == 0 && update(1, -100) == 1.5f);  // limited gradients
  CHECK(update(5, -1) == 5 && update(-4, 1) == -4);       // limited weights
  limits.decay = 0.25f;
  CHECK(update(2, 1) == 1);  // 2 - 0.5 - 0.25 * 2
  limits.decay_has_rate = true;
  CHECK(update(2, 1) == 1.25f);  // 2 - 0.5 - 0.25 * 0.5 * 2
  limits.decay = 0;
  CHECK(update(kInfinity, 1) == 5);  // without a decay, 0 * infinity isn't subtracted
}

void TestTable() {
  CHECK(FindRule("no rule") == nullptr);
  for (const RuleArguments& each : kRules) {
    CHECK(FindRule(each.name) == &each);
    CHECK(each.hyperparameters[0] == &Hyperparameters::rate);  // `Optimizer` relies on it
    CHECK(NumSlots(each.rule) == each.num_slots && each.num_slots <= kMaxSlots);
  }
}

}  // namespace
}  // namespace tpu_columns

int main() {
  std::mt19937 random(1);
  for (const tpu_columns::RuleArguments& rule : tpu_columns::kRules) {
    for (int draw = 0; draw < 8; ++draw) tpu_columns::TestRule(rule, &random);
  }
  tpu_columns::TestDivisionsByZero();
  tpu_columns::TestLimits();
  tpu_columns::TestTable();
  return num_failures > 0;
}
