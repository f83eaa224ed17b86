// Images of host kernels: plain ELF files for AMD's machine whose only content is a note with the path of the kernels'
// source. The runtime runs the simulator's build of that source. In code bundles of clang they are as real images are.
// All other ELF files for the machine are real device code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace emulated_hip {

// The number in the ELF header of a target ("gfx1100", "gfx11-generic"); empty if unknown.
std::optional<uint32_t> machine_of(std::string_view target);
// Whether code for `target` runs on a card of `card_target`.
bool runs_on(std::string_view target, std::string_view card_target);

// `target` without features; `source` is the path below the root of the repository.
std::string make_image(std::string_view target, std::string_view source);

// The bundle of images of several targets, as clang-offload-bundler writes it. Compressed with zstd in format 2 or 3.
std::string make_bundle(const std::vector<std::pair<std::string, std::string>>& images);
std::string compress_bundle(const std::string& bundle, int format);

enum class ImageProblem : uint8_t { kNone, kInvalid, kNoTarget };

struct Image {
  ImageProblem problem = ImageProblem::kNone;
  std::string why;
  std::string target;
  std::string source;     // empty: real device code
  std::string_view code;  // the ELF file, in the caller's memory; of a compressed bundle in `unpacked`
  std::string unpacked;
};

// The image for the card in what hipModuleLoadData gets: an ELF file or a bundle, which may be compressed up to
// `newest_format`.
Image find_image(const void* data, std::string_view card_target, int newest_format);

}  // namespace emulated_hip
