#include "gabbro/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "src/base/error.h"

namespace gabbro::train {
namespace {

void require_steps(const char* schedule, int64_t steps) {
  if (steps < 1) throw bad_input("[{}] {} steps", schedule, steps);
}

// From a at share 0 to b at share 1, along half a cosine.
double between(double a, double b, double share) { return b + (a - b) / 2 * (1 + std::cos(std::numbers::pi * share)); }

double share_of(int64_t step, int64_t steps) { return static_cast<double>(step) / static_cast<double>(steps); }

}  // namespace

Schedule constant(double factor, int64_t steps) {
  return [=](double base, int64_t step) { return step < steps ? base * factor : base; };
}

Schedule linear(double first, double last, int64_t steps) {
  require_steps("linear", steps);
  return [=](double base, int64_t step) {
    return base * (first + (last - first) * share_of(std::min(step, steps), steps));
  };
}

Schedule step_decay(int64_t every, double factor) {
  require_steps("step_decay", every);
  return [=](double base, int64_t step) {
    const int64_t times = step / every;
    return base * std::pow(factor, static_cast<double>(times));
  };
}

Schedule multi_step(std::vector<int64_t> milestones, double factor) {
  return [milestones = std::move(milestones), factor](double base, int64_t step) {
    const auto passed = std::ranges::count_if(milestones, [&](int64_t milestone) { return milestone <= step; });
    return base * std::pow(factor, static_cast<double>(passed));
  };
}

Schedule exponential(double factor) {
  return [=](double base, int64_t step) { return base * std::pow(factor, static_cast<double>(step)); };
}

Schedule polynomial(int64_t steps, double power) {
  require_steps("polynomial", steps);
  return [=](double base, int64_t step) { return base * std::pow(1 - share_of(std::min(step, steps), steps), power); };
}

Schedule cosine(int64_t steps, double least) {
  require_steps("cosine", steps);
  return [=](double base, int64_t step) { return between(base, least, share_of(step, steps)); };
}

Schedule cosine_restarts(int64_t steps, int64_t growth, double least) {
  require_steps("cosine_restarts", steps);
  if (growth < 1) throw bad_input("[cosine_restarts] a growth of {}", growth);
  return [=](double base, int64_t step) {
    int64_t length = steps;
    if (growth == 1) {
      step %= length;
    } else {
      for (; step >= length; length *= growth) step -= length;
    }
    return between(base, least, share_of(step, length));
  };
}

Schedule one_cycle(const OneCycle& o) {
  require_steps("one_cycle", o.steps);
  if (!(o.rising >= 0 && o.rising <= 1)) throw bad_input("[one_cycle] a share of {} that rises", o.rising);
  return [o](double, int64_t step) {
    const double first = o.max_rate / o.first_divisor, last = first / o.last_divisor;
    const double top = o.rising * static_cast<double>(o.steps) - 1, end = static_cast<double>(o.steps) - 1;
    const double at = std::min(static_cast<double>(step), end);
    if (at <= top) return between(first, o.max_rate, top > 0 ? at / top : 1);
    return between(o.max_rate, last, end > top ? (at - top) / (end - top) : 1);
  };
}

Schedule sequential(std::vector<Schedule> schedules, std::vector<int64_t> milestones) {
  if (schedules.size() != milestones.size() + 1 || !std::ranges::is_sorted(milestones))
    throw bad_input("[sequential] {} schedules with {} milestones", schedules.size(), milestones.size());
  return [schedules = std::move(schedules), milestones = std::move(milestones)](double base, int64_t step) {
    const auto next = std::ranges::upper_bound(milestones, step);
    const int64_t since = next == milestones.begin() ? 0 : *(next - 1);
    return schedules[static_cast<size_t>(next - milestones.begin())](base, step - since);
  };
}

Scheduler::Scheduler(Optimizer& optimizer, Schedule schedule) : optimizer_(optimizer), schedule_(std::move(schedule)) {
  for (size_t group = 0; group < optimizer.groups(); ++group) base_.push_back(optimizer.lr(group));
  set(0);
}

void Scheduler::set(int64_t step) {
  if (step < 0) throw bad_input("[scheduler] step {}", step);
  step_ = step;
  for (size_t group = 0; group < base_.size(); ++group) optimizer_.set_lr(schedule_(base_[group], step), group);
}

PlateauScheduler::PlateauScheduler(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.smaller_is_better ? std::numeric_limits<double>::infinity()
                                      : -std::numeric_limits<double>::infinity()) {
  if (!(options.factor > 0 && options.factor < 1)) throw bad_input("[plateau] a factor of {}", options.factor);
  if (!(options.least >= 0)) throw bad_input("[plateau] a least rate of {}", options.least);
  if (std::isnan(options.threshold)) throw bad_input("[plateau] a threshold of nan");
  if (options.patience < 0 || options.cooldown < 0)
    throw bad_input("[plateau] a patience of {}, a cooldown of {} steps", options.patience, options.cooldown);
}

void PlateauScheduler::set_state(const State& state) {
  if (state.bad_steps < 0 || state.cooling < 0)
    throw bad_input("[plateau] a state of {} and {} steps", state.bad_steps, state.cooling);
  best_ = state.best;
  bad_steps_ = state.bad_steps;
  cooling_ = state.cooling;
}

void PlateauScheduler::step(double measure) {
  const double share = options_.smaller_is_better ? 1 - options_.threshold : 1 + options_.threshold;
  const bool better = options_.smaller_is_better ? measure < best_ * share : measure > best_ * share;
  if (better) best_ = measure;
  bad_steps_ = better ? 0 : bad_steps_ + 1;
  if (cooling_ > 0) {
    --cooling_;
    bad_steps_ = 0;
  }
  if (bad_steps_ <= options_.patience) return;
  for (size_t group = 0; group < optimizer_.groups(); ++group)
    optimizer_.set_lr(std::max(optimizer_.lr(group) * options_.factor, options_.least), group);
  cooling_ = options_.cooldown;
  bad_steps_ = 0;
}

}  // namespace gabbro::train
