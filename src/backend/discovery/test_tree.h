// Recorded machines for tests: tests/data/sysfs, and small ones made on the spot.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "src/backend/discovery/machine.h"

namespace gabbro::discovery {

// The folders of recorded machines, which are unpacked when they are asked for, and removed when the program ends.
class RecordedMachines {
 public:
  static const std::string& folder(const std::string& name) {
    static RecordedMachines machines;
    std::string& folder = machines.folders_[name];
    if (folder.empty()) folder = machines.unpack(name);
    return folder;
  }

 private:
  RecordedMachines() {
    std::string name = (std::filesystem::temp_directory_path() / "gabbro_sysfs_XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) root_ = name;
  }
  ~RecordedMachines() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  // A line "==> PATH" begins a file, as tests/sysfs_trees.py has it.
  std::string unpack(const std::string& name) {
    std::ifstream packed(GABBRO_SOURCE_DIR "/tests/data/sysfs/" + name + ".tree");
    std::ofstream file;
    const std::string_view mark = "==> ";
    for (std::string line; std::getline(packed, line);) {
      if (!line.starts_with(mark)) {
        file << line << '\n';
        continue;
      }
      const std::filesystem::path path = root_ / name / line.substr(mark.size());
      std::filesystem::create_directories(path.parent_path());
      file = std::ofstream(path);
    }
    return (root_ / name).string();
  }

  std::filesystem::path root_;
  std::map<std::string, std::string> folders_;
};

inline SystemRoot recorded(const std::string& name) { return SystemRoot(RecordedMachines::folder(name)); }

inline Machine machine(const std::string& name, Environment::Values variables = {}) {
  return read_machine(recorded(name), Environment(std::move(variables)));
}

// A copy of a recorded machine (or an empty one) that a test may change; removed at its end.
class TestTree {
 public:
  explicit TestTree(const std::string& copy_of = {}) {
    static int number = 0;  // of this process
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("gabbro_tree_" + std::to_string(::getpid()) + "_" + std::to_string(number++));
    std::filesystem::create_directories(folder_);
    if (!copy_of.empty()) {
      std::filesystem::copy(recorded(copy_of).path(""), folder_, std::filesystem::copy_options::recursive);
    }
  }
  ~TestTree() { std::filesystem::remove_all(folder_); }
  TestTree(const TestTree&) = delete;
  TestTree& operator=(const TestTree&) = delete;

  SystemRoot root() const { return SystemRoot(folder_.string()); }
  std::filesystem::path path(const std::string& file) const { return folder_ / file; }

  TestTree& write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(path(file).parent_path());
    std::ofstream(path(file), std::ios::binary) << text;
    return *this;
  }
  TestTree& remove(const std::string& file) {
    std::filesystem::remove_all(path(file));
    return *this;
  }
  Machine machine(Environment::Values variables = {}) const {
    return read_machine(root(), Environment(std::move(variables)));
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace gabbro::discovery
