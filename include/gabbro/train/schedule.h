// Learning rates as functions of the step, and the scheduler that sets them, with the formulas of
// torch.optim.lr_scheduler. A step is an epoch or a batch, as the caller counts.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "gabbro/train/optimizer.h"

#pragma GCC visibility push(default)
namespace gabbro::train {

// The rate of step 0, 1, ... of a group whose own rate is `base`.
using Schedule = std::function<double(double base, int64_t step)>;

Schedule constant(double factor = 1.0 / 3, int64_t steps = 5);  // base · factor, and from `steps` on base
Schedule linear(double first_factor = 1.0 / 3, double last_factor = 1, int64_t steps = 5);
Schedule step_decay(int64_t every, double factor = 0.1);
Schedule multi_step(std::vector<int64_t> milestones, double factor = 0.1);
Schedule exponential(double factor);
Schedule polynomial(int64_t steps, double power = 1);
// Half a cosine from base down to `least` (Loshchilov & Hutter 2017), and up again if it goes on.
Schedule cosine(int64_t steps, double least = 0);
// Cosines that repeat, each `growth` times as long as the one before.
Schedule cosine_restarts(int64_t steps, int64_t growth = 1, double least = 0);

struct OneCycle {
  double max_rate = 0;
  int64_t steps = 0;          // at the last one, and from there on, the rate is the smallest
  double rising = 0.3;        // the share of the steps in which it rises
  double first_divisor = 25;  // of max_rate, for the first rate
  double last_divisor = 1e4;  // of the first rate, for the last one
};
// Up to a maximum and down to almost zero, by cosines (Smith & Topin 2018). Its rates replace the base rate.
Schedule one_cycle(const OneCycle& options);
// Schedule i ends where milestone i is, and the next begins there at its step 0.
Schedule sequential(std::vector<Schedule> schedules, std::vector<int64_t> milestones);

// Sets an optimizer's rates; the constructor sets the rates of step 0.
class Scheduler {
 public:
  Scheduler(Optimizer& optimizer, Schedule schedule);
  void step() { set(step_ + 1); }
  int64_t current_step() const { return step_; }
  void set(int64_t step);

 private:
  Optimizer& optimizer_;
  Schedule schedule_;
  std::vector<double> base_;  // by group
  int64_t step_ = 0;
};

struct PlateauOptions {
  bool smaller_is_better = true;
  double factor = 0.1;
  int64_t patience = 10, cooldown = 0;  // steps without progress that are borne; after a reduction, not counted
  double threshold = 1e-4;              // the share by which the best value has to be bettered
  double least = 0;                     // of the rates
};
// Multiplies the rates by a factor when a measure has stopped getting better: ReduceLROnPlateau.
class PlateauScheduler {
 public:
  PlateauScheduler(Optimizer& optimizer, const PlateauOptions& options);
  void step(double measure);

  struct State {
    double best = 0;
    int64_t bad_steps = 0, cooling = 0;
  };
  State state() const { return {best_, bad_steps_, cooling_}; }
  void set_state(const State& state);

 private:
  Optimizer& optimizer_;
  PlateauOptions options_;
  double best_;
  int64_t bad_steps_ = 0, cooling_ = 0;
};

}  // namespace gabbro::train
#pragma GCC visibility pop
