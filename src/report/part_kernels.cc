// The kernels of the device against the host: the check `kernels` of the doctor, three times, with and without graphs,
// and the elements that differ.
#include <cstdlib>

#include "src/base/error.h"
#include "src/report/examined_device.h"

namespace gabbro::report {

void check_kernels(const PartOptions& options, PartOutput& output) {
  // The plugin appends to this file (backends/gpu/doctor/check_details.h).
  const std::string details = output.folder() + "/kernel_details.jsonl";
  ::setenv("GABBRO_DOCTOR_DETAILS", details.c_str(), 1);
  DevicePointer device;
  const double opened = seconds_of([&] { device = open_examined_device(options); });
  output.line({{"step", "open"}, {"seconds", opened}, {"device", device->facts().id}});
  const Buffer x = random_buffer(*device, {1, 4096}, DType::f32, 1), y = make_buffer(*device, {1, 4096}, DType::f32);
  std::optional<KernelCall> call;
  const double found = seconds_of([&] { call = make_call(*device, "neg", {x}, y); });
  if (!call) throw failed("the device has no kernel for neg");
  output.line({{"step", "first kernel"}, {"seconds", found}, {"kernels", device->facts().kernels}});
  const abi::Launch launch = call->launch();
  const double launched = seconds_of([&] {
    execute(*device, {&launch, 1}, nullptr);
    device->synchronize();
  });
  output.line({{"step", "first launch"}, {"seconds", launched}});

  const Device::State& state = device->state();
  const std::string id = device->facts().id;
  const int32_t index = std::atoi(id.substr(id.find(':') + 1).c_str());
  if (state.backend->run_check == nullptr) throw failed("{} has no checks", id);
  for (const char* check : {"code-objects", "kernels"}) {
    abi::CheckResult result;
    const abi::Status status = state.backend->run_check(index, check, &result);
    const bool answered = status.code == abi::StatusCode::kOk;
    output.line({{"check", check},
                 {"status", answered ? static_cast<int>(result.status) : -1},
                 {"summary", answered ? result.summary : status.message}});
  }
}

}  // namespace gabbro::report
