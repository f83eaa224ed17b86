// Choice among the candidates for a shape: known speeds, and what the device measures. The measuring is in autotune.cc.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/gpu/tuning/tuning_file.h"
#include "gabbro/backend_abi.h"

namespace gabbro::gpu {

struct Measurement {
  struct Candidate {
    std::string name;
    double seconds = 0;  // of a launch
    bool fit = false;    // it did not fail, and its result is right
  };
  std::string shape;
  std::vector<Candidate> candidates;
  size_t chosen = 0;
  double seconds = 0;  // that it took to find out
};

class Tuning {
 public:
  // `device` says what the measurements hold for: hardware, driver, and the libraries with their versions. It is called
  // when that is first needed, since it may open the libraries. GABBRO_TUNE=1 makes kMeasureUnknown of kKnown, and
  // GABBRO_MIOPEN_SEARCH=1 lets libraries search.
  Tuning(const abi::TuningOptions& options, std::function<std::string()> device);
  // As the contract's set_tuning: the environment has no say any more. Throws ApiError, and changes nothing, where
  // another file cannot be read, or not be written although it is to be.
  void set(const abi::TuningOptions& options);
  void forget();
  std::string file() const;  // its path; empty: nothing is kept

  // Whether it is worth asking: something is known, or is to be measured.
  bool active() const;
  // The name of the candidate to use; empty if the shape was not measured. `look_up` counts which of the two it was.
  std::string known(const std::string& shape) const;
  std::string look_up(const std::string& shape);
  // Whether the shape is to be measured now.
  bool measures(const std::string& shape) const;
  // Whether libraries are to search among their algorithms for it before that.
  bool searches(const std::string& shape) const;

  // Keeps what was measured, in memory and in the file.
  void record(Measurement measurement);
  // Whether a measurement ended less than `seconds` ago.
  bool measured_within(double seconds) const;

  void facts(abi::TuningFacts& facts) const;
  // False where fewer were measured.
  bool measured(size_t number, abi::MeasuredShape& shape) const;

 private:
  const std::string& device() const;  // with the mutex held, as in the next
  std::string known_locked(const std::string& shape) const;

  abi::Tuning mode_;
  bool search_;
  TuningFile file_;
  const std::function<std::string()> describe_;
  mutable std::mutex mutex_;
  mutable std::string device_;
  TuningTable table_;
  std::string problem_;
  std::vector<Measurement> measured_;
  std::optional<std::chrono::steady_clock::time_point> last_;  // end of the last measurement
  uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace gabbro::gpu
