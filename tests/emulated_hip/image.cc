#include "tests/emulated_hip/image.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <zstd.h>

namespace emulated_hip {
namespace {

constexpr uint16_t kMachine = 224;        // EM_AMDGPU
constexpr unsigned char kSystem = 64;     // ELFOSABI_AMDGPU_HSA
constexpr unsigned char kAbiVersion = 4;  // code object version 6
constexpr uint32_t kTargetMask = 0xff;    // EF_AMDGPU_MACH
constexpr uint32_t kAllFeatures = 0x500;  // xnack and sramecc: any
constexpr std::string_view kNoteName{"Gabbro\0", 7};
constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr std::string_view kCompressedMagic = "CCOB";
constexpr uint16_t kZstd = 1;

struct Target {
  std::string_view name;
  uint32_t machine;
  std::string_view generic;  // whose code runs here
};
// LLVM's user guide for AMDGPU, tables of processors and of ELF header flags.
constexpr std::array<Target, 18> kTargets = {{
    {"gfx906", 0x2f, "gfx9-generic"},
    {"gfx908", 0x30, ""},
    {"gfx90a", 0x3f, ""},
    {"gfx942", 0x4c, "gfx9-4-generic"},
    {"gfx950", 0x4f, "gfx9-4-generic"},
    {"gfx1030", 0x36, "gfx10-3-generic"},
    {"gfx1100", 0x41, "gfx11-generic"},
    {"gfx1101", 0x46, "gfx11-generic"},
    {"gfx1102", 0x47, "gfx11-generic"},
    {"gfx1151", 0x4a, "gfx11-generic"},
    {"gfx1200", 0x48, "gfx12-generic"},
    {"gfx1201", 0x4e, "gfx12-generic"},
    {"gfx9-generic", 0x51, ""},
    {"gfx9-4-generic", 0x5f, ""},
    {"gfx10-1-generic", 0x52, ""},
    {"gfx10-3-generic", 0x53, ""},
    {"gfx11-generic", 0x54, ""},
    {"gfx12-generic", 0x59, ""},
}};

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T read(const char* data, size_t offset = 0) {
  T value;
  std::memcpy(&value, data + offset, sizeof value);
  return value;
}

Image invalid(std::string why) {
  Image image;
  image.problem = ImageProblem::kInvalid;
  image.why = std::move(why);
  return image;
}

Image read_elf(const char* data, std::string_view card_target) {
  const auto header = read<Elf64_Ehdr>(data);
  if (header.e_machine != kMachine || header.e_ident[EI_OSABI] != kSystem)
    return invalid("an ELF file of another machine");
  Image image;
  const uint32_t machine = header.e_flags & kTargetMask;
  const auto target = std::ranges::find(kTargets, machine, &Target::machine);
  if (target == kTargets.end() || !runs_on(target->name, card_target)) {
    image.problem = ImageProblem::kNoTarget;
    image.why = fmt::format("code for {}", target == kTargets.end() ? "an unknown target" : target->name);
    return image;
  }
  image.target = target->name;
  size_t end = header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
  for (int i = 0; i < header.e_phnum; ++i) {
    const auto segment = read<Elf64_Phdr>(data, header.e_phoff + i * sizeof(Elf64_Phdr));
    end = std::max<size_t>(end, segment.p_offset + segment.p_filesz);
    if (segment.p_type != PT_NOTE) continue;
    const auto note = read<Elf64_Nhdr>(data, segment.p_offset);
    const char* const name = data + segment.p_offset + sizeof note;
    if (std::string_view(name, note.n_namesz) != kNoteName) continue;
    image.source.assign(name + 8, note.n_descsz);
  }
  image.code = {data, end};
  return image;
}

Image read_bundle(const char* data, std::string_view card_target) {
  const auto count = read<uint64_t>(data, kBundleMagic.size());
  size_t at = kBundleMagic.size() + sizeof count;
  Image best;
  best.problem = ImageProblem::kNoTarget;
  best.why = "no code for this device in the bundle";
  for (uint64_t i = 0; i < count; ++i) {
    const auto offset = read<uint64_t>(data, at), size = read<uint64_t>(data, at + 8),
               id = read<uint64_t>(data, at + 16);
    at += 24 + id;
    if (size < sizeof(Elf64_Ehdr)) continue;  // of the host
    Image found = read_elf(data + offset, card_target);
    if (found.problem != ImageProblem::kNone) continue;
    const bool is_exact = found.target == card_target;
    if (is_exact || best.problem != ImageProblem::kNone) best = std::move(found);
    if (is_exact) break;
  }
  return best;
}

Image read_compressed(const char* data, std::string_view card_target, int newest_format) {
  const auto format = read<uint16_t>(data, 4), method = read<uint16_t>(data, 6);
  if (format > newest_format)
    return invalid(fmt::format("a bundle of format {}, newer than this release knows", format));
  if (method != kZstd || format < 2) return invalid("a bundle that is not compressed with zstd");
  const bool is_wide = format >= 3;
  const uint64_t total = is_wide ? read<uint64_t>(data, 8) : read<uint32_t>(data, 8);
  const uint64_t size = is_wide ? read<uint64_t>(data, 16) : read<uint32_t>(data, 12);
  const size_t header = is_wide ? 32 : 24;
  std::string bundle(size, '\0');
  const size_t result = ZSTD_decompress(bundle.data(), size, data + header, total - header);
  if (ZSTD_isError(result) != 0 || result != size) return invalid("a damaged bundle");
  Image image = find_image(bundle.data(), card_target, newest_format);
  const auto offset = image.code.empty() ? 0 : image.code.data() - bundle.data();
  image.unpacked = std::move(bundle);
  image.code = {image.unpacked.data() + offset, image.code.size()};
  return image;
}

}  // namespace

std::optional<uint32_t> machine_of(std::string_view target) {
  const auto found = std::ranges::find(kTargets, target, &Target::name);
  return found == kTargets.end() ? std::nullopt : std::optional<uint32_t>(found->machine);
}

bool runs_on(std::string_view target, std::string_view card_target) {
  const auto card = std::ranges::find(kTargets, card_target, &Target::name);
  return card != kTargets.end() && (target == card_target || (!card->generic.empty() && card->generic == target));
}

std::string make_image(std::string_view target, std::string_view source) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_ident[EI_OSABI] = kSystem;
  header.e_ident[EI_ABIVERSION] = kAbiVersion;
  header.e_type = ET_DYN;
  header.e_machine = kMachine;
  header.e_version = EV_CURRENT;
  header.e_phoff = header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  const bool has_features = target.starts_with("gfx9") && target != "gfx9-generic";
  // A generic target has its version in the highest byte.
  header.e_flags =
      machine_of(target).value_or(0) | (has_features ? kAllFeatures : 0) | (target.ends_with("generic") ? 1U << 24 : 0);
  const Elf64_Nhdr note = {static_cast<Elf64_Word>(kNoteName.size()), static_cast<Elf64_Word>(source.size()), 1};
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_flags = PF_R;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = segment.p_memsz = sizeof note + 8 + source.size();
  segment.p_align = 4;
  std::string image;
  append(image, header);
  append(image, segment);
  append(image, note);
  image.append(kNoteName).push_back('\0');  // to a multiple of 4
  image.append(source);
  image.resize((image.size() + 7) / 8 * 8, '\0');
  return image;
}

std::string make_bundle(const std::vector<std::pair<std::string, std::string>>& images) {
  std::vector<std::pair<std::string, std::string>> all = {{"host-x86_64-unknown-linux-gnu-", ""}};
  for (const auto& [target, image] : images) all.emplace_back("hipv4-amdgcn-amd-amdhsa--" + target, image);
  size_t offset = kBundleMagic.size() + 8;
  for (const auto& [id, image] : all) offset += 24 + id.size();
  constexpr size_t kAlignment = 4096;
  std::string bundle(kBundleMagic);
  append(bundle, uint64_t{all.size()});
  std::string contents;
  offset = (offset + kAlignment - 1) / kAlignment * kAlignment;
  for (const auto& [id, image] : all) {
    append(bundle, uint64_t{offset + contents.size()});
    append(bundle, uint64_t{image.size()});
    append(bundle, uint64_t{id.size()});
    bundle.append(id);
    contents.append(image);
    contents.resize((contents.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
  }
  bundle.resize(offset, '\0');
  return bundle + contents;
}

std::string compress_bundle(const std::string& bundle, int format) {
  std::string packed(ZSTD_compressBound(bundle.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bundle.data(), bundle.size(), 3));
  const bool is_wide = format >= 3;
  const uint64_t total = packed.size() + (is_wide ? 32 : 24);
  std::string text(kCompressedMagic);
  append(text, static_cast<uint16_t>(format));
  append(text, kZstd);
  if (is_wide) {
    append(text, total);
    append(text, uint64_t{bundle.size()});
  } else {
    append(text, static_cast<uint32_t>(total));
    append(text, static_cast<uint32_t>(bundle.size()));
  }
  append(text, uint64_t{0});  // a hash that the runtime does not check
  return text + packed;
}

Image find_image(const void* data, std::string_view card_target, int newest_format) {
  const auto* text = static_cast<const char*>(data);
  if (std::memcmp(text, ELFMAG, SELFMAG) == 0) return read_elf(text, card_target);
  if (std::memcmp(text, kCompressedMagic.data(), kCompressedMagic.size()) == 0)
    return read_compressed(text, card_target, newest_format);
  if (std::memcmp(text, kBundleMagic.data(), kBundleMagic.size()) == 0) return read_bundle(text, card_target);
  return invalid("neither an ELF file nor a bundle");
}

}  // namespace emulated_hip
