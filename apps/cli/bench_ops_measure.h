// Measures one case of `bench ops`: planned once, replayed many times.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "apps/cli/bench_ops_cases.h"

namespace gabbro::cli {

struct OpMeasuring {
  int iterations = 0;  // samples to take; 0: as many as fit in a quarter of a second, 5 to 200
  int warmup = 3;      // runs before
};

struct OpTiming {
  double median = 0, least = 0, most = 0;  // seconds of a run
  int samples = 0;
  int runs = 0;  // each sample is their mean
};

struct OpResult {
  OpTiming timing;
  double bytes = 0, flops = 0;       // what the launches of a run move and compute; 0: a kernel does not say
  std::vector<std::string> kernels;  // of each launch
};

// Throws OutOfMemory, kInterrupted when `cancel` became true, and what the device says when it fails.
OpResult measure_op(const std::shared_ptr<Device>& device, const OpCase& op_case, DType dtype,
                    const OpMeasuring& options, const std::atomic<bool>* cancel);

}  // namespace gabbro::cli
