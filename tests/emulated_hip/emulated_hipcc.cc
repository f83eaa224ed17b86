// Stands for hipcc where device code is the simulator's: writes images of host kernels (image.h) for the targets that
// its options name. Takes the options that the build gives to hipcc:
//   emulated_hipcc [-x hip] [-std=...] [-O...] [-I...] --genco [--no-gpu-bundle-output] [--offload-compress]
//                  --offload-arch=TARGET... -o FILE SOURCE
// COMPRESSED_BUNDLE_FORMAT_VERSION=2 chooses the format of compressed bundles, as for hipcc.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/emulated_hip/image.h"

namespace {

int refuse(std::string_view what, std::string_view why) {
  fmt::print(stderr, "emulated_hipcc: {}: {}\n", what, why);
  return 2;
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> targets;
  std::string output, source;
  bool bundles = true, compresses = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word.starts_with("--offload-arch=")) {
      targets.emplace_back(word.substr(std::strlen("--offload-arch=")));
      if (!emulated_hip::machine_of(targets.back())) return refuse(targets.back(), "unknown target");
    } else if (word == "--no-gpu-bundle-output") {
      bundles = false;
    } else if (word == "--offload-compress") {
      compresses = true;
    } else if ((word == "-o" || word == "-x") && i + 1 < count) {
      ++i;
      if (word == "-o") output = words[i];
    } else if (word == "--genco" || word == "--cuda-device-only" || word.starts_with("-std=") ||
               word.starts_with("-O") || word.starts_with("-I") || word.starts_with("-D")) {
      continue;
    } else if (!word.starts_with("-")) {
      source = word;
    } else {
      return refuse(word, "unknown option");
    }
  }
  if (output.empty() || source.empty() || targets.empty())
    return refuse("usage", "--offload-arch=TARGET -o FILE SOURCE");
  if (!bundles && targets.size() != 1) return refuse("--no-gpu-bundle-output", "takes one target");
  const size_t kernels = source.rfind("kernels/");
  if (kernels == std::string::npos) return refuse(source, "not a source of kernels/");
  if (!std::ifstream(source)) return refuse(source, "cannot be read");
  source.erase(0, kernels);
  std::string text;
  if (bundles) {
    std::vector<std::pair<std::string, std::string>> images;
    for (const std::string& target : targets) images.emplace_back(target, emulated_hip::make_image(target, source));
    text = emulated_hip::make_bundle(images);
    const char* format = std::getenv("COMPRESSED_BUNDLE_FORMAT_VERSION");
    if (compresses)
      text = emulated_hip::compress_bundle(text, format != nullptr && std::strcmp(format, "2") == 0 ? 2 : 3);
  } else {
    text = emulated_hip::make_image(targets[0], source);
  }
  std::ofstream file(output, std::ios::binary);
  file << text;
  file.close();
  return file ? 0 : refuse(output, "cannot be written");
}
