#include "apps/cli/split_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/base/mpi/library.h"

namespace gabbro::cli {
namespace {

std::vector<std::string> pieces_of(const std::string& text, const char* option) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    pieces.push_back(text.substr(at, end - at));
    if (pieces.back().empty()) throw bad_input("{}: '{}' has an empty entry", option, text);
    at = end + 1;
  }
  return pieces;
}

bool is_number(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string backend_of(const std::string& name) { return name.substr(0, name.find(':')); }

// The backend whose devices have numbers.
std::string numbered_backend(const std::string& device, const std::vector<abi::DeviceFacts>& known) {
  std::string name = device;
  if (const char* const forced = std::getenv("GABBRO_DEVICE"); name == "auto" && forced != nullptr && *forced != '\0')
    name = forced;
  if (name == "hip" || name.starts_with("hip:")) return "rocm";
  if (name != "auto" && name != "gpu" && !name.starts_with("pci:")) return backend_of(name);
  for (const abi::DeviceFacts& facts : known) {
    const std::string backend = backend_of(facts.id);
    if (facts.usable && facts.wave_size > 1 && backend != "sim") return backend;
  }
  throw Error(ErrorCode::kNoDevice, "--devices: this machine has no usable GPU",
              "names such as sim:0,sim:1 choose other devices");
}

std::vector<std::string> all_of(const std::string& backend, const std::vector<abi::DeviceFacts>& known) {
  std::vector<std::string> discrete, all;
  for (const abi::DeviceFacts& facts : known) {
    if (!facts.usable || backend_of(facts.id) != backend) continue;
    all.emplace_back(facts.id);
    if (!facts.integrated) discrete.emplace_back(facts.id);
  }
  std::vector<std::string>& chosen = discrete.empty() ? all : discrete;
  if (chosen.empty()) throw Error(ErrorCode::kNoDevice, fmt::format("--devices: no device of {} is usable", backend));
  std::ranges::sort(chosen, {}, [](const std::string& id) { return std::pair(id.size(), id); });
  return chosen;
}

Split split_of(const std::string& name) {
  return name == "tensor" ? Split::kTensor : name == "layers" ? Split::kLayers : Split::kAuto;
}

// The device of this process: of a backend with several devices the one with its number on the host.
std::string device_of_process(const std::string& device) {
  const char* const local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  std::string name = device;
  if (name == "auto" || name == "gpu") {
    for (const abi::DeviceFacts& facts : list_devices()) {
      if (!facts.usable) continue;
      name = backend_of(facts.id);
      break;
    }
  }
  if (local == nullptr || name.find(':') != std::string::npos) return name;
  const std::string numbered = fmt::format("{}:{}", name, local);
  const std::vector<abi::DeviceFacts> known = list_devices();
  return std::ranges::any_of(known, [&](const abi::DeviceFacts& facts) { return numbered == facts.id; }) ? numbered
                                                                                                         : name;
}

void apply_to_processes(const SplitOptions& split, LoadOptions& options) {
  if (!split.devices.empty()) {
    throw Error(ErrorCode::kBadInput, "--devices does not go with several processes of mpirun",
                "each process uses one device: --device");
  }
  options.over_processes = true;
  options.device = device_of_process(options.device);
  options.split = split_of(split.split);
  if (split.shares.empty()) return;
  options.shares = parse_shares(split.shares);
  const auto count = static_cast<size_t>(mpi::launched_processes());
  if (options.shares.size() != count)
    throw bad_input("--tensor-split: {} shares for {} processes", options.shares.size(), count);
}

}  // namespace

void add_split_options(Command command, SplitOptions& options) {
  command
      .option("--devices", options.devices,
              "Several devices that hold one model, in this order: 0,1 or all, or names such as cuda:0,cpu")
      .placeholder("LIST");
  command
      .option("--split", options.split,
              "How --devices share the model: each has a range of the layers, or a part of each tensor; auto takes the "
              "fastest, which may be one device")
      .one_of({"auto", "layers", "tensor"})
      .placeholder("auto|layers|tensor");
  command.option("--tensor-split", options.shares, "Shares of the model by device, such as 3,1")
      .default_text("by speed and free memory")
      .placeholder("SHARES")
      .alias("-ts");
}

std::vector<std::string> parse_devices(const std::string& text, const std::string& device,
                                       const std::vector<abi::DeviceFacts>& known) {
  if (text == "all") return all_of(numbered_backend(device, known), known);
  std::vector<std::string> names;
  for (const std::string& piece : pieces_of(text, "--devices")) {
    names.push_back(is_number(piece) ? numbered_backend(device, known) + ":" + piece : piece);
    if (names.back() == "auto" || names.back() == "gpu")
      throw bad_input("--devices: '{}' names no single device", names.back());
  }
  return names;
}

std::vector<double> parse_shares(const std::string& text) {
  std::vector<double> shares;
  for (const std::string& piece : pieces_of(text, "--tensor-split")) {
    double share = 0;
    const char* const end = piece.data() + piece.size();
    const auto [stop, error] = std::from_chars(piece.data(), end, share);
    if (error != std::errc() || stop != end || !std::isfinite(share) || share <= 0)
      throw bad_input("--tensor-split: '{}' is not a number above 0", piece);
    shares.push_back(share);
  }
  return shares;
}

void apply(const CommonOptions& common, LoadOptions& options) {
  const SplitOptions& split = common.several;
  if (split.over_processes) return apply_to_processes(split, options);
  if (split.devices.empty()) {
    if (!split.shares.empty()) throw bad_input("--tensor-split goes with --devices");
    return;
  }
  options.devices = parse_devices(split.devices, common.device, list_devices());
  options.split = split_of(split.split);
  if (split.shares.empty()) return;
  options.shares = parse_shares(split.shares);
  if (options.shares.size() != options.devices.size())
    throw bad_input("--tensor-split: {} shares for {} devices", options.shares.size(), options.devices.size());
}

}  // namespace gabbro::cli
