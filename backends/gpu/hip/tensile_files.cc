#include "backends/gpu/hip/tensile_files.h"

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

}  // namespace gabbro::gpu::hip
