#include "backends/gpu/hip/elf_target.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

namespace gabbro::gpu::hip {
namespace {

constexpr uint16_t kAmdgpuMachine = 224;     // EM_AMDGPU, which elf.h of older C libraries lacks
constexpr unsigned char kAmdHsaSystem = 64;  // ELFOSABI_AMDGPU_HSA
constexpr uint32_t kTargetMask = 0xff;       // EF_AMDGPU_MACH

constexpr auto kTargets = std::to_array<std::pair<uint32_t, std::string_view>>({
    {0x2c, "gfx900"},         {0x2d, "gfx902"},          {0x2e, "gfx904"},          {0x2f, "gfx906"},
    {0x30, "gfx908"},         {0x31, "gfx909"},          {0x32, "gfx90c"},          {0x3f, "gfx90a"},
    {0x4c, "gfx942"},         {0x4f, "gfx950"},          {0x33, "gfx1010"},         {0x34, "gfx1011"},
    {0x35, "gfx1012"},        {0x42, "gfx1013"},         {0x36, "gfx1030"},         {0x37, "gfx1031"},
    {0x38, "gfx1032"},        {0x39, "gfx1033"},         {0x3e, "gfx1034"},         {0x3d, "gfx1035"},
    {0x45, "gfx1036"},        {0x41, "gfx1100"},         {0x46, "gfx1101"},         {0x47, "gfx1102"},
    {0x44, "gfx1103"},        {0x43, "gfx1150"},         {0x4a, "gfx1151"},         {0x55, "gfx1152"},
    {0x58, "gfx1153"},        {0x48, "gfx1200"},         {0x4e, "gfx1201"},         {0x51, "gfx9-generic"},
    {0x5f, "gfx9-4-generic"}, {0x52, "gfx10-1-generic"}, {0x53, "gfx10-3-generic"}, {0x54, "gfx11-generic"},
    {0x59, "gfx12-generic"},
});

}  // namespace

std::string_view elf_target(std::string_view image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof header) return {};
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_OSABI] != kAmdHsaSystem || header.e_machine != kAmdgpuMachine)
    return {};
  const auto found =
      std::ranges::find(kTargets, header.e_flags & kTargetMask, &std::pair<uint32_t, std::string_view>::first);
  return found == kTargets.end() ? std::string_view() : found->second;
}

}  // namespace gabbro::gpu::hip
