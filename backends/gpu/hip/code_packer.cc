#include "backends/gpu/hip/code_packer.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string_view>
#include <tuple>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/code_archive.h"
#include "backends/gpu/hip/elf_target.h"

namespace gabbro::gpu::hip {
namespace {

constexpr int kLevel = 19;  // 17 % smaller than 9, and as fast to unpack

[[noreturn]] void fail(const std::string& what) { throw ApiError(abi::StatusCode::kFailed, what); }

// Code of one generation has much in common: "gfx11" of gfx1100 and of gfx11-generic, "gfx9" of gfx90a.
std::string_view generation_of(std::string_view target) { return target.substr(0, target.starts_with("gfx9") ? 4 : 5); }

// A window that reaches from the end of the image to the start of its dictionary.
int window_log(size_t bytes, size_t dictionary) {
  int log = 10;
  while ((size_t{1} << log) < bytes + dictionary) ++log;
  return log;
}

std::string compress(std::string_view bytes, std::string_view dictionary) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, window_log(bytes.size(), dictionary.size()));
  if (!dictionary.empty()) ZSTD_CCtx_refPrefix(context.get(), dictionary.data(), dictionary.size());
  const size_t packed = ZSTD_compress2(context.get(), frame.data(), frame.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(packed) != 0) fail(fmt::format("packing code: {}", ZSTD_getErrorName(packed)));
  frame.resize(packed);
  return frame;
}

struct Packed {
  std::string frame;
  size_t dictionary;
};

// The smallest frame of each image [first, last), all of one source: alone, or after an earlier image that is packed
// alone.
std::vector<Packed> pack_source(const std::vector<CodeImage>& images, size_t first, size_t last) {
  std::vector<Packed> packed;
  for (size_t i = first; i < last; ++i) {
    Packed best = {compress(images[i].elf, {}), i};
    for (size_t other = first; other < i; ++other) {
      if (packed[other - first].dictionary != other ||
          generation_of(images[other].target) != generation_of(images[i].target))
        continue;
      std::string frame = compress(images[i].elf, images[other].elf);
      if (frame.size() < best.frame.size()) best = {std::move(frame), other};
    }
    packed.push_back(std::move(best));
  }
  return packed;
}

}  // namespace

std::string pack_code(std::vector<CodeImage> images) {
  const auto key = [](const CodeImage& image) { return std::tie(image.source, image.target); };
  std::ranges::sort(images, {}, key);
  if (const auto twice = std::ranges::adjacent_find(images, {}, key); twice != images.end())
    fail(fmt::format("two images of {} for {}", twice->source, twice->target));
  for (const CodeImage& image : images) {
    const std::string_view found = elf_target(image.elf);
    if (found == image.target) continue;
    fail(fmt::format("the image of {} for {} is {}", image.source, image.target,
                     found.empty() ? "not an ELF file of a known AMD target" : fmt::format("code for {}", found)));
  }
  // A minute for all targets with one thread.
  std::vector<std::future<std::vector<Packed>>> sources;
  for (size_t first = 0, last = 0; first < images.size(); first = last) {
    while (last < images.size() && images[last].source == images[first].source) ++last;
    sources.push_back(std::async(std::launch::async, pack_source, std::cref(images), first, last));
  }
  std::vector<Packed> packed;
  for (auto& source : sources) std::ranges::move(source.get(), std::back_inserter(packed));
  std::string archive = fmt::format("{} {}\n", kArchiveHeader, images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    archive += fmt::format("{} {} {} {} {}\n", images[i].target, images[i].source, images[i].elf.size(),
                           packed[i].frame.size(), packed[i].dictionary);
  }
  for (const Packed& image : packed) archive += image.frame;
  return archive;
}

}  // namespace gabbro::gpu::hip
