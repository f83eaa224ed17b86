// Options of `testgen`, and the sources that its arguments mean.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/cli/options.h"
#include "src/testgen/pack.h"

namespace gabbro::cli {

struct TestgenOptions {
  CommonOptions common;
  std::vector<std::string> targets;
  std::string out, task, family, from, list, python = "python3";
  std::string sizes = "auto", dtypes = "f32,bf16,f16", devices = "auto", checks, without, engines = "auto";
  std::vector<int> lengths;  // empty: the defaults of PackOptions
  uint64_t seed = 0;
  bool all = false, force = false;
  bool run = false, detect = false, run_model = false, verify = false, mutate = false;
  std::string report, require, bisect, golden;
  int jobs = 1, limit = 120, seconds = 0;
};

// A folder for temporary files, removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The options of the packs. Throws bad_input for names that mean nothing, with those there are.
testgen::PackOptions pack_options(const TestgenOptions& options);

// The engines of --engine; auto: transformers, and gabbro where it has the family of the source's type.
std::vector<std::string> engines_of(const TestgenOptions& options, const testgen::Source& source);

// The command that writes the pack of a source, without paths: packs are attached to reports.
std::string command_of(const TestgenOptions& options, const testgen::Source& source);

// Throws bad_input for a name in --devices that is none.
void check_devices(const std::string& devices);

// The configuration of a target: a model type, a config.json, a folder with one, or a downloaded model. Throws
// bad_input.
testgen::Source read_source(const std::string& target);

// The targets of the command line, of --from and of --all, without duplicates.
std::vector<std::string> all_targets(const TestgenOptions& options);

// "a,b" as its parts; empty for an empty text. Throws bad_input, naming `option`, for an empty part.
std::vector<std::string> split_names(const std::string& text, const char* option);

// Runs a file of python/gabbro/testgen with Python; returns its exit code. Throws bad_input where there is no Python.
int run_python(const TestgenOptions& options, const std::string& script, const std::vector<std::string>& arguments);

}  // namespace gabbro::cli
