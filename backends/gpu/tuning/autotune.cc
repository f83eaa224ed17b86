#include "backends/gpu/tuning/autotune.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "backends/common/request.h"
#include "backends/gpu/memory/staging.h"
#include "backends/gpu/tuning/rounds.h"
#include "backends/gpu/tuning/tuning.h"
#include "src/base/half.h"

namespace gabbro::gpu {
namespace {

// Time of one candidate, twice a round: enough launches for the clock, and few enough that a model's shapes take
// seconds.
constexpr double kSecondsOfTurn = 2.5e-3;
constexpr double kStaysWarm = 0.02;  // seconds without work in which a clock does not fall
constexpr int kMaxLaunches = 64;

// Results that are compared, from the start of each output.
constexpr size_t kCompared = size_t{1} << 20;
// Root mean square error, as a share of that of our result. Ours may round activations to 8 bits, which costs about
// 0.005; a library that is wrong is off by 1 and more.
constexpr double kWrong = 0.05;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::max(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1e-9);
}

float float_of(const void* elements, DType dtype, size_t i) {
  if (dtype == DType::f32) return static_cast<const float*>(elements)[i];
  const uint16_t bits = static_cast<const uint16_t*>(elements)[i];
  return dtype == DType::f16 ? half_bits_to_float(bits) : bfloat_bits_to_float(bits);
}

using Results = std::vector<std::vector<float>>;  // of each output

Results results_of(const abi::Launch& launch, api::Queue* queue) {
  Results all;
  for (int32_t k = 0; k < launch.output_count; ++k) {
    const abi::TensorView& view = launch.outputs[k];
    const auto count = std::min(static_cast<size_t>(elements(view)), kCompared);
    std::vector<std::byte> bytes(dtype_bytes(view.dtype, count));
    copy_pieces_to_host(queue, bytes.data(), view.data, bytes.size());
    api::synchronize(queue);
    std::vector<float>& values = all.emplace_back(count);
    for (size_t i = 0; i < count; ++i) values[i] = float_of(bytes.data(), view.dtype, i);
  }
  return all;
}

// A result of ours that is not finite cannot be compared.
bool agree(const Results& found, const Results& ours) {
  double error = 0, size = 0;
  for (size_t k = 0; k < ours.size(); ++k) {
    for (size_t i = 0; i < ours[k].size(); ++i) {
      if (!std::isfinite(ours[k][i])) continue;
      const double difference = static_cast<double>(found[k][i]) - ours[k][i];
      error += difference * difference;
      size += static_cast<double>(ours[k][i]) * ours[k][i];
    }
  }
  return error <= kWrong * kWrong * size;  // false for NaN
}

// A kernel that has not chosen yet: its first launch carries the shape out in every candidate, and takes the time.
class Autotuner : public Kernel {
 public:
  struct BuiltCandidate {
    std::string name;
    bool ours, only_measured;
    std::unique_ptr<Kernel> kernel;
  };

  // `seconds`: that it took to make the built, which may have searched.
  Autotuner(std::string shape, std::vector<BuiltCandidate> built, double seconds, Tuning& tuning)
      : shape_(std::move(shape)), candidates_(std::move(built)), seconds_(seconds), tuning_(tuning) {
    const Kernel& first = *candidates_.front().kernel;
    implementation = first.implementation + ", measured at its first launch";
    bytes = first.bytes;
    flops = first.flops;
    for (const BuiltCandidate& candidate : candidates_) {
      scratch_bytes = std::max(scratch_bytes, candidate.kernel->scratch_bytes);
    }
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const Kernel* kernel = chosen_.load(std::memory_order_acquire);
    if (kernel == nullptr) {
      const std::lock_guard lock(mutex_);  // another stream's first launch may be choosing
      if (chosen_.load(std::memory_order_relaxed) == nullptr) choose(launch, run);
      kernel = chosen_.load(std::memory_order_relaxed);
    }
    kernel->enqueue(launch, run);
  }

 private:
  void choose(const abi::Launch& launch, const Launcher& run) const {
    if (tuning_.measures(shape_)) measure(launch, run);
    // Another kernel of the same shape may have been measured, with built that this one lacks.
    const std::string known = tuning_.known(shape_);
    auto found = std::ranges::find(candidates_, known, &BuiltCandidate::name);
    if (found == candidates_.end()) found = std::ranges::find(candidates_, false, &BuiltCandidate::only_measured);
    const Kernel* const chosen = (found == candidates_.end() ? candidates_.front() : *found).kernel.get();
    std::erase_if(candidates_, [&](const BuiltCandidate& candidate) { return candidate.kernel.get() != chosen; });
    chosen_.store(chosen, std::memory_order_release);
  }

  void measure(const abi::Launch& launch, const Launcher& run) const {
    const auto start = std::chrono::steady_clock::now();
    Measurement measurement{.shape = shape_, .candidates = {}};
    for (const BuiltCandidate& candidate : candidates_) measurement.candidates.push_back({.name = candidate.name});
    api::synchronize(run.queue);
    check_results(measurement, launch, run);
    std::vector<double> guesses;
    for (const Measurement::Candidate& candidate : measurement.candidates)
      guesses.push_back(candidate.fit ? candidate.seconds : 0);
    RoundsOptions options;
    if (tuning_.measured_within(kStaysWarm)) options.warm_seconds = 0;
    const CandidateTimes times = time_candidates(
        guesses, [&](size_t i, double guess) { return time_of(*candidates_[i].kernel, guess, launch, run); }, options);
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (measurement.candidates[i].fit) measurement.candidates[i].seconds = times.ratios[i] * times.fastest;
    }
    measurement.chosen = times.chosen;
    measurement.seconds = seconds_ + seconds_since(start);
    tuning_.record(std::move(measurement));
  }

  // Runs every way once: those that fail, or whose result is not ours, drop out. Also notes how long it took, which is
  // too long, since it is the first time.
  void check_results(Measurement& measurement, const abi::Launch& launch, const Launcher& run) const {
    std::optional<Results> ours;
    std::optional<ApiError> failure;
    std::vector<size_t> order;
    for (const bool own : {true, false}) {
      for (size_t i = 0; i < candidates_.size(); ++i) {
        if (candidates_[i].ours == own) order.push_back(i);
      }
    }
    bool any = false;
    for (const size_t i : order) {
      Measurement::Candidate& candidate = measurement.candidates[i];
      try {
        const auto start = std::chrono::steady_clock::now();
        candidates_[i].kernel->enqueue(launch, run);
        api::synchronize(run.queue);
        candidate.seconds = seconds_since(start);
        Results results = results_of(launch, run.queue);
        candidate.fit = !ours || agree(results, *ours);
        if (!ours) ours = std::move(results);
        any = any || candidate.fit;
      } catch (const ApiError& error) {
        if (error.code == abi::StatusCode::kLost) throw;
        failure = error;
        candidate.seconds = 0;
      }
    }
    if (!any) throw *failure;  // of one candidate at least: the first result is always fit
  }

  Timing time_of(const Kernel& kernel, double guess, const abi::Launch& launch, const Launcher& run) const {
    const int launches = static_cast<int>(std::clamp(kSecondsOfTurn / guess, 1.0, double{kMaxLaunches}));
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) kernel.enqueue(launch, run);
    api::synchronize(run.queue);
    const double total = seconds_since(start);
    return {.launch = total / launches, .total = total};
  }

  std::string shape_;
  mutable std::vector<BuiltCandidate> candidates_;
  mutable std::atomic<const Kernel*> chosen_{nullptr};
  mutable std::mutex mutex_;
  double seconds_;
  Tuning& tuning_;
};

}  // namespace

std::unique_ptr<Kernel> autotune(const std::string& shape, std::span<const Candidate> candidates,
                                 const MakeContext& context) {
  Tuning& tuning = context.tuning();
  const std::string known = candidates.size() > 1 ? tuning.look_up(shape) : "";
  if (candidates.size() > 1 && tuning.measures(shape)) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Autotuner::BuiltCandidate> built;
    for (const Candidate& candidate : candidates.first(std::min<size_t>(candidates.size(), abi::kMaxCandidates))) {
      if (auto kernel = candidate.make())
        built.push_back({candidate.name, candidate.ours, candidate.only_measured, std::move(kernel)});
    }
    if (built.size() > 1) return std::make_unique<Autotuner>(shape, std::move(built), seconds_since(start), tuning);
    return built.empty() || built.front().only_measured ? nullptr : std::move(built.front().kernel);
  }
  if (!known.empty()) {
    const auto found = std::ranges::find(candidates, known, &Candidate::name);
    if (found != candidates.end()) {
      if (auto kernel = found->make()) return kernel;
    }
  }
  for (const Candidate& candidate : candidates) {
    if (candidate.only_measured) continue;
    if (auto kernel = candidate.make()) return kernel;
  }
  return nullptr;
}

int64_t length_class(int64_t length) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(length, 1))));
}

}  // namespace gabbro::gpu
