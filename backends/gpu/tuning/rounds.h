// Times of candidates that are compared while the clock changes: a GPU that was idle takes tens of milliseconds to
// raise its clock, and an APU shares its power with the CPU. So candidates are timed in turns, and what counts is the
// ratio to the fastest of the same round.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace gabbro::gpu {

struct RoundsOptions {
  double warm_seconds = 0.05;  // of work before the first round
  double agreement = 0.05;     // of the ratios of two rounds, which are then enough
  int max_rounds = 6;
  double hopeless = 4;   // ratio from which on one round is enough
  double margin = 0.02;  // candidates that are this close are as fast; the first of them is chosen
};

struct CandidateTimes {
  std::vector<double> ratios;  // to the fastest, at least 1; 0 for candidates that were not timed
  double fastest = 0;          // seconds of a launch
  size_t chosen = 0;
  int rounds = 0;
};

struct Timing {
  double launch = 0;  // seconds of a launch
  double total = 0;   // of all that were made
};

// `guesses`: seconds of a launch of each candidate, or 0 for those that are not to be timed; at least one is not 0.
// `time(i, guess)` launches candidate i for some milliseconds.
CandidateTimes time_candidates(std::span<const double> guesses, const std::function<Timing(size_t, double)>& time,
                               const RoundsOptions& options = {});

}  // namespace gabbro::gpu
