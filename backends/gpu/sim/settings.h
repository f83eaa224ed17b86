// The simulator's environment variables (api_sim.cc lists them).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gabbro::gpu::sim {

inline constexpr int32_t kMostDevices = 64;
inline constexpr size_t kMemory = size_t{8} << 30;  // bytes that each device says it has

// None: GABBRO_SIM_DEVICES is not a number from 1 to kMostDevices.
std::optional<int32_t> wanted_devices();
// Lanes of a device's waves. Throws ApiError for another GABBRO_SIM_WAVE than 32 and 64.
uint32_t wave_of(int32_t index);

// X of "what:X" in GABBRO_SIM_FAIL; empty: not asked for.
std::string fault_text(std::string_view what);
uint64_t fault(std::string_view what);  // as a number; 0: not asked for
// Whether a fault of a launch may happen: GABBRO_SIM_FAIL_ONCE has not had one.
bool fails_now();

// A variable in seconds.
double seconds_of(const char* name, double otherwise);
std::chrono::steady_clock::duration to_duration(double seconds);

}  // namespace gabbro::gpu::sim
