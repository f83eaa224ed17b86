// A part of the report: one subject, examined by a separate child process, so that a crash or a hang is a result.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace gabbro::report {

struct PartOptions {
  std::string device;   // as open_device() takes it; empty: the best GPU
  std::string model;    // a model file of the user; empty: none
  double seconds = 60;  // that the part may take; it leaves out what would take longer
};

// Time of a part, from its start on.
class Budget {
 public:
  explicit Budget(const PartOptions& options) : seconds_(options.seconds) {}
  // Whether less than this share of it is over.
  bool below(double share) const { return used() < share * seconds_; }
  double used() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  std::chrono::steady_clock::time_point at(double share) const {
    return start_ + std::chrono::milliseconds(static_cast<int64_t>(1000 * share * seconds_));
  }

 private:
  double seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Findings of a part: files in a folder, which the report takes from there. Lines are on disk when the call returns.
class PartOutput {
 public:
  PartOutput(std::string folder, std::string part) : folder_(std::move(folder)), part_(std::move(part)) {}

  // Appends a line to PART.jsonl. Throws Error if the folder cannot be written.
  void line(const nlohmann::ordered_json& object);
  // Writes a file with a relative name, folders included.
  void file(const std::string& name, std::string_view content);
  const std::string& folder() const { return folder_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string folder_, part_;
  std::unique_ptr<std::FILE, CloseFile> lines_;
};

enum class PartKind {
  kMachine,  // needs no device
  kDevice,   // needs the device that is examined
  kRocm,     // the same, and only on an AMD card
  kFaults    // as kDevice; only with --faults
};

struct Part {
  const char* name;
  PartKind kind;
  int seconds;  // limit in a report of ten minutes
  void (*run)(const PartOptions& options, PartOutput& output);
};

// In the order in which they run. Their limits together are at most ten minutes.
std::span<const Part> part_table();
// Null if there is no such part.
const Part* find_part(std::string_view name);

// part_machine.cc: the recorded tree, environment, packages and libraries, and the doctor's findings.
void record_machine(const PartOptions& options, PartOutput& output);
// part_runtime.cc: what the HIP runtime says of itself; the devices of all backends.
void record_runtime(const PartOptions& options, PartOutput& output);
void record_devices(const PartOptions& options, PartOutput& output);
// part_kernels.cc
void check_kernels(const PartOptions& options, PartOutput& output);
// part_memory.cc
void check_ranges(const PartOptions& options, PartOutput& output);
void time_copies(const PartOptions& options, PartOutput& output);
void time_copies_without_sdma(const PartOptions& options, PartOutput& output);
// part_graphs.cc
void check_graphs(const PartOptions& options, PartOutput& output);
void check_litmus(const PartOptions& options, PartOutput& output);
// part_faults.cc
void provoke_fault(const PartOptions& options, PartOutput& output);
void check_after_fault(const PartOptions& options, PartOutput& output);
// part_speed.cc
void measure_speed(const PartOptions& options, PartOutput& output);
// part_model.cc
void check_model(const PartOptions& options, PartOutput& output);

}  // namespace gabbro::report
