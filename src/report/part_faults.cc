// A fault on purpose: a kernel that stores to an address that no allocation has, and what the runtime says from then
// on.
#include <fmt/format.h>

#include "src/base/error.h"
#include "src/report/examined_device.h"

namespace gabbro::report {
namespace {

constexpr int64_t kStored = 4096;

template <class Body>
void report_step(PartOutput& output, const char* step, const Body& body) {
  std::string error;
  const double seconds = seconds_of([&] {
    try {
      body();
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
  });
  output.line({{"step", step}, {"error", error}, {"seconds", seconds}});
}

}  // namespace

void provoke_fault(const PartOptions& options, PartOutput& output) {
  const DevicePointer device = open_examined_device(options);
  const Buffer x = random_buffer(*device, {kStored}, DType::f32, 1);
  Buffer y = make_buffer(*device, {kStored}, DType::f32);
  y.view.data = static_cast<char*>(y.view.data) + (int64_t{1} << 42);
  auto call = make_call(*device, "neg", {x}, y);
  if (!call) throw failed("the device has no kernel for neg");
  const abi::Launch launch = call->launch();
  // Lines come first: where the runtime aborts, they say how far it came.
  output.line({{"step", "fault"}, {"device", device->facts().id}});
  report_step(output, "launch", [&] { execute(*device, {&launch, 1}, nullptr); });
  report_step(output, "wait", [&] { device->synchronize(); });
  report_step(output, "wait again", [&] { device->synchronize(); });
  report_step(output, "allocate", [&] { make_buffer(*device, {kStored}, DType::f32); });
  report_step(output, "copy", [&] { downloaded(*device, x); });
}

void check_after_fault(const PartOptions& options, PartOutput& output) {
  DevicePointer device;
  report_step(output, "open", [&] { device = open_examined_device(options); });
  if (device == nullptr) return;
  report_step(output, "compute", [&] {
    const Buffer x = random_buffer(*device, {kStored}, DType::f32, 1), y = make_buffer(*device, {kStored}, DType::f32);
    auto call = make_call(*device, "neg", {x}, y);
    if (!call) throw failed("the device has no kernel for neg");
    const abi::Launch launch = call->launch();
    execute(*device, {&launch, 1}, nullptr);
    const std::vector<float> in = downloaded(*device, x), out = downloaded(*device, y);
    for (size_t i = 0; i < in.size(); ++i) {
      if (out[i] != -in[i]) throw failed("element {} is {} and not {}", i, out[i], -in[i]);
    }
  });
}

}  // namespace gabbro::report
