// Power, clocks and load of a card, sampled every 100 ms by a thread, as the kernel shows them.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "src/backend/discovery/system_root.h"

namespace gabbro::report {

struct PowerSample {
  double seconds = 0;  // since the log began
  double watts = -1;   // -1 here and below: unknown
  int core_mhz = -1, memory_mhz = -1, busy_percent = -1;
};

// Reads the card at a PCI address; all is unknown where the kernel shows nothing of it.
PowerSample sample_power(const discovery::SystemRoot& root, const std::string& pci_address);

class PowerLog {
 public:
  PowerLog(discovery::SystemRoot root, std::string pci_address);
  ~PowerLog();
  PowerLog(const PowerLog&) = delete;
  PowerLog& operator=(const PowerLog&) = delete;

  double seconds() const;  // since it began
  // Samples so far; empty where nothing is known of the card.
  std::vector<PowerSample> samples() const;

 private:
  void run();

  const discovery::SystemRoot root_;
  const std::string pci_address_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;
  std::vector<PowerSample> samples_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

nlohmann::ordered_json json_of(const PowerSample& sample);

}  // namespace gabbro::report
