#include "apps/cli/bench_ops_measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "src/plan/eval.h"

namespace gabbro::cli {
namespace {

// A sample is as many runs as take a millisecond, with one wait for the device at its end: the host's work for a run
// then overlaps with the device's, as in a program, and the clock is read rarely enough.
constexpr double kSampleSeconds = 1e-3;
constexpr int kMostRuns = 1000;
constexpr double kCaseSeconds = 0.25;
constexpr int kLeastSamples = 5, kMostSamples = 200;

// Seconds of a run, on the average of `runs` of them.
double sample(Compiled& compiled, Device& device, int runs, const std::atomic<bool>* cancel) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) compiled(cancel);
  device.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / runs;
}

int at_most(double count, int least, int most) {
  return static_cast<int>(std::clamp(count, static_cast<double>(least), static_cast<double>(most)));
}

}  // namespace

OpResult measure_op(const std::shared_ptr<Device>& device, const OpCase& op_case, DType dtype,
                    const OpMeasuring& options, const std::atomic<bool>* cancel) {
  const std::vector<Tensor> inputs = make_op_inputs(device, op_case, dtype);
  Compiled compiled([&] { return record_op(op_case, inputs); });

  OpResult result;
  bool all_known = true;
  for (const PlanStep& step : compiled.plan().steps()) {
    result.kernels.emplace_back(step.kernel->bound.implementation);
    result.bytes += step.kernel->bound.bytes;
    result.flops += step.kernel->bound.flops;
    all_known &= step.kernel->bound.bytes > 0;
  }
  if (!all_known) result.bytes = result.flops = 0;

  if (options.warmup > 0) sample(compiled, *device, options.warmup, cancel);
  const double once = std::max(sample(compiled, *device, 1, cancel), 1e-9);
  const int runs = at_most(std::ceil(kSampleSeconds / once), 1, kMostRuns);
  const int samples =
      options.iterations > 0 ? options.iterations : at_most(kCaseSeconds / (once * runs), kLeastSamples, kMostSamples);
  std::vector<double> seconds(static_cast<size_t>(samples));
  for (double& one : seconds) one = sample(compiled, *device, runs, cancel);
  std::ranges::sort(seconds);
  const size_t middle = seconds.size() / 2;
  result.timing = {.median = seconds.size() % 2 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2,
                   .least = seconds.front(),
                   .most = seconds.back(),
                   .samples = samples,
                   .runs = runs};
  return result;
}

}  // namespace gabbro::cli
