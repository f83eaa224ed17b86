// Recorded machines for tests: those of tests/data/sysfs, and small ones made on the spot.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "src/backend/discovery/machine.h"

namespace gabbro::discovery {

inline SystemRoot recorded(const std::string& name) {
  return SystemRoot(GABBRO_SOURCE_DIR "/tests/data/sysfs/" + name);
}

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
