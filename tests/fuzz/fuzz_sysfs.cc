// Any tree of files as a recorded machine: discovery and every check of doctor end, in one line each, without a crash.
// The input is a list of entries "path\ntext\\": files with any content, and where the text begins with "->" symbolic
// links, which may lead in circles. They are written over a small machine, so that a mutation of one file is enough to
// reach what reads it.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "src/backend/discovery/fields.h"
#include "src/backend/discovery/visible_devices.h"
#include "src/backend/doctor/doctor.h"
#include "tests/fuzz/input.h"

namespace {

namespace fs = std::filesystem;
using namespace gabbro;
using namespace gabbro::discovery;

constexpr const char* kCard = "sys/bus/pci/devices/0000:03:00.0/";
constexpr const char* kNode = "sys/class/kfd/kfd/topology/nodes/1/";
constexpr int kMostEntries = 12;

const fs::path& folder() {
  static const fs::path kFolder = fs::temp_directory_path() / ("gabbro_fuzz_sysfs_" + std::to_string(::getpid()));
  return kFolder;
}

// Keeps the path below the folder, and short.
fs::path inside(const std::string& name) {
  fs::path path = folder();
  int depth = 0;
  for (const std::string& part : split(name.substr(0, 256), "/")) {
    if (part != "." && part != ".." && part.find('\0') == std::string::npos && ++depth <= 12) path /= part;
  }
  return path;
}

void write(const std::string& name, const std::string& text) {
  const fs::path path = inside(name);
  std::error_code error;
  if (path == folder()) return;
  fs::create_directories(path.parent_path(), error);
  if (error) return;
  if (text.starts_with("->")) {
    fs::remove(path, error);
    // Never out of the tree: a target is a path within it.
    fs::create_symlink(inside(text.substr(2)), path, error);
  } else if (!fs::is_symlink(path, error) && !fs::is_directory(path, error)) {
    std::ofstream(path, std::ios::binary) << text;
  }
}

void write_machine() {
  write(std::string(kCard) + "vendor", "0x1002\n");
  write(std::string(kCard) + "device", "0x744c\n");
  write(std::string(kCard) + "uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n");
  write(std::string(kNode) + "properties",
        "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\nlocation_id 768\n");
  write("facts", "node /dev/kfd uid=0 gid=109 mode=0660 open=ok\nruntime hip status=ok version=7.2.0 devices=\n");
}

Environment environment(fuzz::Input& input) {
  Environment::Values values;
  for (const char* name : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
                           "HSA_OVERRIDE_GFX_VERSION", "ROCM_PATH", "PATH"}) {
    if (input.boolean()) values.emplace(name, input.text(40));
  }
  return Environment(std::move(values));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  std::error_code error;
  fs::remove_all(folder(), error);
  write_machine();
  const Environment variables = environment(input);
  for (int i = 0; i < kMostEntries; ++i) {
    const std::string entry = input.text(5000);
    const size_t end = entry.find('\n');
    if (end != std::string::npos) write(entry.substr(0, end), entry.substr(end + 1));
  }

  const Machine machine = read_machine(SystemRoot(folder().string()), variables);
  const std::vector<Plugin> plugins;
  Runtimes runtimes(machine.root);
  for (const doctor::Check& check : doctor::check_table()) {
    const doctor::Finding finding = check.run({machine, plugins, runtimes});
    if (finding.summary.empty()) std::abort();
  }
  for (const Card& card : machine.cards) {
    if (judge_card(machine, card, plugins, runtimes).holds()) std::abort();  // there is no backend
  }
  fs::remove_all(folder(), error);
  return 0;
}
