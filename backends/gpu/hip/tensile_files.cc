#include "backends/gpu/hip/tensile_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace gabbro::gpu::hip {

namespace fs = std::filesystem;

std::vector<fs::path> tensile_folders(const fs::path& library, std::string_view name, const char* chosen) {
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  const fs::path folder = library.parent_path() / name;
  std::vector<fs::path> folders = {folder / "library"};
  const std::string file = library.filename();
  if (const size_t at = file.find(".so."); at != std::string::npos) {
    const std::string version = file.substr(at + 4);
    folders.push_back(folder / version.substr(0, version.find('.')) / "library");
  }
  return folders;
}

bool has_tensile_files(const std::vector<fs::path>& folders, std::string_view target) {
  const std::string own(target);
  return std::ranges::any_of(folders, [&](const fs::path& folder) {
    for (const fs::path& place : {folder, folder / own}) {
      for (const char* list : {"TensileLibrary_lazy_", "TensileLibrary_"}) {
        for (const char* extension : {".dat", ".yaml"}) {
          std::error_code ignored;
          if (fs::is_regular_file(place / (list + own + extension), ignored)) return true;
        }
      }
    }
    return false;
  });
}

std::string missing_tensile_files(const fs::path& library, std::string_view name, const char* chosen,
                                  std::string_view target) {
  const std::vector<fs::path> folders = tensile_folders(library, name, chosen);
  if (has_tensile_files(folders, target)) return {};
  std::string searched;
  for (const fs::path& folder : folders) searched += (searched.empty() ? "" : ", ") + folder.string();
  // Packages of TheRock are split by target; packages of ROCm 6.4 and newer have no code for Vega 20.
  const std::string advice = target == "gfx906"
                                 ? "packages of ROCm 6.4 and newer have none for it; rocBLAS of ROCm 6.3 has"
                                 : fmt::format("install the package of {} with kernels for {}", name, target);
  return fmt::format("no kernels for {} in {}: {}", target, searched, advice);
}

}  // namespace gabbro::gpu::hip
