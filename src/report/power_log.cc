#include "src/report/power_log.h"

#include <fmt/format.h>

#include <utility>

#include "src/backend/discovery/fields.h"

namespace gabbro::report {
namespace {

using discovery::SystemRoot;

// The line with a star of "0: 500Mhz\n1: 2482Mhz *".
int active_clock(const SystemRoot& root, const std::string& file) {
  for (const std::string& line : discovery::split(root.read(file, 4096).value_or(""), "\n")) {
    if (!line.ends_with('*')) continue;
    const size_t colon = line.find(':');
    return colon == std::string::npos ? -1 : std::atoi(line.c_str() + colon + 1);
  }
  return -1;
}

}  // namespace

PowerSample sample_power(const SystemRoot& root, const std::string& pci_address) {
  PowerSample sample;
  if (pci_address.empty()) return sample;
  const std::string folder = "/sys/bus/pci/devices/" + pci_address;
  sample.core_mhz = active_clock(root, folder + "/pp_dpm_sclk");
  sample.memory_mhz = active_clock(root, folder + "/pp_dpm_mclk");
  sample.busy_percent = static_cast<int>(root.read_number(folder + "/gpu_busy_percent").value_or(uint64_t(-1)));
  for (const std::string& monitor : root.list(folder + "/hwmon")) {
    for (const char* file : {"power1_average", "power1_input"}) {
      const auto microwatts = root.read_number(fmt::format("{}/hwmon/{}/{}", folder, monitor, file));
      if (microwatts && sample.watts < 0) sample.watts = static_cast<double>(*microwatts) / 1e6;
    }
    const auto hertz = root.read_number(fmt::format("{}/hwmon/{}/freq1_input", folder, monitor));
    if (hertz) sample.core_mhz = static_cast<int>(*hertz / 1000000);
  }
  return sample;
}

PowerLog::PowerLog(SystemRoot root, std::string pci_address)
    : root_(std::move(root)), pci_address_(std::move(pci_address)), thread_([this] { run(); }) {}

PowerLog::~PowerLog() {
  stop_ = true;
  thread_.join();
}

double PowerLog::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::vector<PowerSample> PowerLog::samples() const {
  const std::lock_guard lock(mutex_);
  return samples_;
}

void PowerLog::run() {
  for (auto next = start_; !stop_; next += std::chrono::milliseconds(100)) {
    PowerSample sample = sample_power(root_, pci_address_);
    sample.seconds = seconds();
    if (sample.watts >= 0 || sample.core_mhz >= 0 || sample.busy_percent >= 0) {
      const std::lock_guard lock(mutex_);
      samples_.push_back(sample);
    }
    std::this_thread::sleep_until(next + std::chrono::milliseconds(100));
  }
}

nlohmann::ordered_json json_of(const PowerSample& sample) {
  return {{"seconds", sample.seconds},
          {"watts", sample.watts},
          {"core_mhz", sample.core_mhz},
          {"memory_mhz", sample.memory_mhz},
          {"busy_percent", sample.busy_percent}};
}

}  // namespace gabbro::report
