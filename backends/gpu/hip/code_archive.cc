#include "backends/gpu/hip/code_archive.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <tuple>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/elf_target.h"

namespace gabbro::gpu::hip {
namespace {

constexpr std::string_view kHeader = "gabbro code 1";
constexpr int kLevel = 19;  // 17 % smaller than 9, and as fast to unpack
constexpr size_t kLargestImage = size_t{256} << 20;

[[noreturn]] void fail(const std::string& what) { throw ApiError(abi::StatusCode::kFailed, "rocm: " + what); }

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

// The text before the separator, which is removed together with it.
std::string_view cut(std::string_view& rest, char separator) {
  const std::string_view part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  return part;
}

size_t read_number(std::string_view text) {
  size_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size())
    fail(fmt::format("the code archive's index is damaged at '{}'", text));
  return number;
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
  std::string archive = fmt::format("{} {}\n", kHeader, images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    archive += fmt::format("{} {} {} {} {}\n", images[i].target, images[i].source, images[i].elf.size(),
                           packed[i].frame.size(), packed[i].dictionary);
  }
  for (const Packed& image : packed) archive += image.frame;
  return archive;
}

CodeArchive::CodeArchive(std::string_view bytes) {
  if (bytes.empty()) return;
  std::string_view rest = bytes, first = cut(rest, '\n');
  if (!first.starts_with(kHeader)) fail("the code archive does not begin with its header");
  first.remove_prefix(std::min(first.size(), kHeader.size() + 1));
  entries_.resize(std::min(read_number(first), bytes.size()));
  std::vector<size_t> sizes;
  for (Entry& entry : entries_) {
    std::string_view line = cut(rest, '\n');
    entry.target = cut(line, ' ');
    entry.source = cut(line, ' ');
    entry.bytes = read_number(cut(line, ' '));
    sizes.push_back(read_number(cut(line, ' ')));
    entry.dictionary = read_number(cut(line, ' '));
    if (entry.bytes > kLargestImage || entry.dictionary >= entries_.size())
      fail(fmt::format("the code archive's index is damaged at {}", entry.source));
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (sizes[i] > rest.size()) fail("the code archive is truncated");
    entries_[i].frame = rest.substr(0, sizes[i]);
    rest.remove_prefix(sizes[i]);
  }
}

std::vector<std::string_view> CodeArchive::targets() const {
  std::vector<std::string_view> targets;
  for (const Entry& entry : entries_) targets.push_back(entry.target);
  std::ranges::sort(targets);
  const auto repeated = std::ranges::unique(targets);
  targets.erase(repeated.begin(), repeated.end());
  return targets;
}

std::optional<std::vector<char>> CodeArchive::unpack(std::string_view target, std::string_view source) const {
  const auto entry =
      std::ranges::find_if(entries_, [&](const Entry& own) { return own.target == target && own.source == source; });
  if (entry == entries_.end()) return std::nullopt;
  return unpack(*entry);
}

std::vector<char> CodeArchive::unpack(const Entry& entry) const {
  const Entry& other = entries_[entry.dictionary];
  std::vector<char> dictionary;
  if (&other != &entry) {
    if (&entries_[other.dictionary] != &other) fail("the code archive's index is damaged: a dictionary needs another");
    dictionary = unpack(other);
  }
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, window_log(2 * kLargestImage, 0));
  if (!dictionary.empty()) ZSTD_DCtx_refPrefix(context.get(), dictionary.data(), dictionary.size());
  std::vector<char> bytes(entry.bytes);
  const size_t unpacked =
      ZSTD_decompressDCtx(context.get(), bytes.data(), bytes.size(), entry.frame.data(), entry.frame.size());
  if (unpacked != bytes.size()) {
    fail(fmt::format("the plugin's code of {} for {} is damaged: {}", entry.source, entry.target,
                     ZSTD_isError(unpacked) != 0 ? ZSTD_getErrorName(unpacked) : "it has another length"));
  }
  return bytes;
}

}  // namespace gabbro::gpu::hip
