// The checks of `gabbro doctor --self-test` that a GPU answers; their ids are in src/backend/doctor/device_checks.cc.
#pragma once

#include <cstdint>
#include <string_view>

#include "gabbro/backend_abi.h"

namespace gabbro::gpu {

// Opens the device for itself. False where there is no such check for it. Throws ApiError.
bool run_check(int32_t index, std::string_view id, abi::CheckResult& result);

// Finding of the check `bandwidth`: bytes/s that a copy reached, and that the memory can move.
void judge_bandwidth(double reached, double possible, abi::CheckResult& result);

}  // namespace gabbro::gpu
