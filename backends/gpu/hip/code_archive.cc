#include "backends/gpu/hip/code_archive.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "backends/gpu/api.h"

namespace gabbro::gpu::hip {
namespace {

constexpr size_t kLargestImage = size_t{256} << 20;
constexpr int kWindowLogMax = 29;  // an image and its dictionary

[[noreturn]] void fail(const std::string& what) { throw ApiError(abi::StatusCode::kFailed, "rocm: " + what); }

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

CodeArchive::CodeArchive(std::string_view bytes) {
  if (bytes.empty()) return;
  std::string_view rest = bytes, first = cut(rest, '\n');
  if (!first.starts_with(kArchiveHeader)) fail("the code archive does not begin with its header");
  first.remove_prefix(std::min(first.size(), kArchiveHeader.size() + 1));
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

std::vector<std::string_view> CodeArchive::sources(std::string_view target) const {
  std::vector<std::string_view> sources;
  for (const Entry& entry : entries_) {
    if (entry.target == target) sources.push_back(entry.source);
  }
  return sources;
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
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kWindowLogMax);
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
