#include "backends/gpu/hip/code_target.h"

#include <algorithm>
#include <array>

namespace gabbro::gpu::hip {
namespace {

struct Generic {
  std::string_view name;
  std::array<std::string_view, 8> members;
};

constexpr std::array<Generic, 6> kGenerics = {{
    {"gfx9-generic", {"gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"}},
    {"gfx9-4-generic", {"gfx942", "gfx950"}},
    {"gfx10-1-generic", {"gfx1010", "gfx1011", "gfx1012", "gfx1013"}},
    {"gfx10-3-generic", {"gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"}},
    {"gfx11-generic", {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"}},
    {"gfx12-generic", {"gfx1200", "gfx1201"}},
}};

}  // namespace

std::string_view target_of(std::string_view architecture) { return architecture.substr(0, architecture.find(':')); }

std::string_view generic_target(std::string_view target) {
  const auto found = std::ranges::find_if(
      kGenerics, [&](const Generic& generic) { return std::ranges::count(generic.members, target) > 0; });
  return found == kGenerics.end() || target.empty() ? std::string_view() : found->name;
}

bool is_rdna(std::string_view target) {
  return target.starts_with("gfx10") || target.starts_with("gfx11") || target.starts_with("gfx12");
}

CodeChoice choose_code(std::string_view architecture, std::span<const std::string_view> built) {
  const std::string_view target = target_of(architecture), generic = generic_target(target);
  if (std::ranges::count(built, target) > 0) return {CodeKind::kExact, std::string(target)};
  if (!generic.empty() && std::ranges::count(built, generic) > 0) return {CodeKind::kGeneric, std::string(generic)};
  return {CodeKind::kCompiled, std::string(target)};
}

std::string description_of(const CodeChoice& choice) {
  switch (choice.kind) {
    case CodeKind::kExact:
      return "native kernels";
    case CodeKind::kGeneric:
      return choice.target + " kernels";
    case CodeKind::kCompiled:
      break;
  }
  return "kernels compiled on first use";
}

}  // namespace gabbro::gpu::hip
