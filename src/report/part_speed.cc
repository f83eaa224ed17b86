// Times of the device: latencies, a GEMV, a tile of a prompt, attention; then five seconds of idling, with power and
// clocks throughout.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/base/error.h"
#include "src/base/processor_time.h"
#include "src/report/examined_device.h"
#include "src/report/power_log.h"

namespace gabbro::report {
namespace {

using nlohmann::ordered_json;

constexpr double kTooLong = 0.02;  // seconds of one launch: larger sizes are left out

// Median seconds of a launch that is waited for together with `batch` - 1 others, after 50 ms of work that raises
// clocks. A launch that takes long is timed once.
double time_launches(Device& device, const abi::Launch& launch, int batch) {
  const auto run = [&](int count) {
    return seconds_of([&] {
             for (int i = 0; i < count; ++i) execute(device, {&launch, 1}, nullptr);
             device.synchronize();
           }) /
           count;
  };
  run(1);  // chooses and loads what it needs
  const double first = run(1);
  if (first > 0.02) return first;
  for (double warm = 0; warm < 0.05;) warm += run(batch) * batch;
  std::vector<double> times;
  for (double spent = 0; spent < 0.3 && times.size() < 50;) {
    times.push_back(run(batch));
    spent += times.back() * batch;
  }
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return times[times.size() / 2];
}

void report_time(Device& device, const std::string& what, KernelCall& call, PartOutput& output, double& seconds) {
  const abi::Launch launch = call.launch();
  seconds = time_launches(device, launch, 10);
  output.line({{"time", what},
               {"implementation", call.implementation()},
               {"microseconds", seconds * 1e6},
               {"gb_per_second", call.bytes() / seconds / 1e9},
               {"tflops", call.flops() / seconds / 1e12}});
}

void time_latencies(Device& device, PartOutput& output) {
  const Buffer x = random_buffer(device, {1024}, DType::f32, 1), y = make_buffer(device, {1024}, DType::f32);
  auto call = make_call(device, "neg", {x}, y);
  if (!call) throw failed("the device has no kernel for neg");
  const abi::Launch launch = call->launch();
  const auto line = [&](const char* what, double seconds) {
    output.line({{"time", what}, {"microseconds", seconds * 1e6}});
  };
  line("launch and wait", time_launches(device, launch, 1));
  line("launch", time_launches(device, launch, 200));
  const std::vector<abi::Launch> list(256, launch);
  for (int i = 0; i < 3; ++i) execute(device, list, nullptr);  // a graph from the second time on
  device.synchronize();
  line("launch in a replayed list of 256", seconds_of([&] {
                                             for (int i = 0; i < 10; ++i) execute(device, list, nullptr);
                                             device.synchronize();
                                           }) / 2560);
  const Device::State& state = device.state();
  abi::Event* event = nullptr;
  check(state.backend->create_event(state.device, &event), "creating an event");
  line("record an event and wait for it",
       seconds_of([&] {
         for (int i = 0; i < 100; ++i) {
           check(state.backend->record(state.device, nullptr, event), "recording an event");
           check(state.backend->synchronize_event(state.device, event), "waiting for an event");
         }
       }) / 100);
  state.backend->destroy_event(state.device, event);
  const std::shared_ptr<void> pinned = device.allocate_host(4096);
  line("copy 4 KiB to the device and wait", seconds_of([&] {
                                              for (int i = 0; i < 100; ++i) {
                                                device.copy_to_device(x.view.data, pinned.get(), 4096);
                                                device.synchronize();
                                              }
                                            }) / 100);
}

void time_products(Device& device, const Budget& budget, PartOutput& output) {
  for (const auto& [dtype, tokens, name] : {std::tuple{DType::q4_0, int64_t{1}, "GEMV q4_0"},
                                            std::tuple{DType::f16, int64_t{512}, "prompt of 512 tokens, f16"}}) {
    double seconds = 0;
    for (const int64_t size : {128, 1024, 4096}) {
      if (seconds > kTooLong || !budget.below(0.4)) break;
      const Buffer w = random_weight(device, size, size, dtype, 1),
                   x = random_buffer(device, {tokens, size}, DType::f32, 2),
                   y = make_buffer(device, {tokens, size}, DType::f32);
      if (auto call = make_call(device, "linear", {x, w}, y))
        report_time(device, fmt::format("{}, {} x {}", name, size, size), *call, output, seconds);
    }
  }
}

void time_attention(Device& device, const Budget& budget, PartOutput& output) {
  constexpr int64_t kHeads = 16, kSize = 128;
  double seconds = 0;
  for (const int64_t length : {128, 1024, 4096}) {
    if (seconds > kTooLong || !budget.below(0.6)) break;
    const auto make = [&](uint32_t seed) {
      return random_buffer(device, {1, kHeads, length, kSize}, DType::f16, seed);
    };
    const Buffer y = make_buffer(device, {1, kHeads, length, kSize}, DType::f16);
    if (auto call = make_call(device, "scaled_dot_product_attention", {make(1), make(2), make(3)}, y,
                              1 / std::sqrt(static_cast<double>(kSize))))
      report_time(device, fmt::format("attention of {} tokens, {} heads of {}", length, kHeads, kSize), *call, output,
                  seconds);
  }
}

}  // namespace

void measure_speed(const PartOptions& options, PartOutput& output) {
  const Budget budget(options);
  const DevicePointer device = open_examined_device(options);
  const PowerLog power(discovery::SystemRoot::from_environment(), device->facts().pci_address);
  time_latencies(*device, output);
  time_products(*device, budget, output);
  time_attention(*device, budget, output);
  const double idle_from = power.seconds(), before = processor_seconds();
  // The device stays open, as in a program that waits for its user.
  const double idle = std::min(5.0, options.seconds / 12);
  std::this_thread::sleep_for(std::chrono::duration<double>(idle));
  const double used = processor_seconds() - before;
  const std::vector<PowerSample> samples = power.samples();
  for (const PowerSample& sample : samples) {
    ordered_json line = json_of(sample);
    line["idle"] = sample.seconds >= idle_from;
    output.line({{"power", line}});
  }
  output.line({{"idle_seconds", idle}, {"processor_seconds", used}, {"power_samples", samples.size()}});
}

}  // namespace gabbro::report
