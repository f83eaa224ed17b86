#include "src/base/hip/search.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "src/base/hip/folders.h"
#include "src/base/hip/library_file.h"

namespace gabbro::hip_search {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The compiler's library and the one of the kernel driver, of the same release as HIP: older ones of the system would
// come first on the loader's path.
void open_parts_of_hip(const std::string& hip_path) {
  const std::string folder = fs::path(hip_path).parent_path();
  for (const auto& names :
       {std::vector{"libhsa-runtime64.so.1"}, std::vector{"libamd_comgr.so.3", "libamd_comgr.so.2"}}) {
    for (const char* name : names) {
      if (::dlopen(name, RTLD_LAZY | RTLD_NOLOAD) != nullptr) break;
      const std::string path = folder + "/" + name;
      if (exists(path) && ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr) break;
    }
  }
}

class Search {
 public:
  explicit Search(const Settings& settings) : settings_(settings) {}

  Found run() {
    if (!settings_.hip_path.empty()) return take_forced();
    if (!settings_.loaded.empty()) return take_loaded();
    for (const Step& step : search_steps(settings_)) {
      if (step.folder.empty() ? try_loader() : try_folder(step.folder)) return std::move(found_);
    }
    found_.problem = fmt::format("looked for libamdhip64.so.7 and .so.6 in {}{}", describe_search(settings_), notes());
    return std::move(found_);
  }

 private:
  Found take_forced() {
    std::error_code error;
    const std::string path = fs::absolute(settings_.hip_path, error);
    const std::string variable = "GABBRO_HIP_PATH=" + settings_.hip_path;
    any_version_ = true;
    if (!exists(path)) {
      found_.problem = variable + ": no such file or folder";
    } else if (!fs::is_directory(path, error)) {
      if (!try_file(path)) found_.problem = fmt::format("GABBRO_HIP_PATH: {}", fmt::join(notes_, "; "));
    } else {
      std::vector<std::string> folders = library_folders(path);
      folders.insert(folders.begin(), path);
      for (const std::string& folder : folders) {
        if (try_folder(folder)) return std::move(found_);
      }
      found_.problem = fmt::format("{} holds no library of HIP (libamdhip64.so.7){}", variable, notes());
    }
    return std::move(found_);
  }

  // Two copies in one process crash.
  Found take_loaded() {
    const int major = major_of(settings_.loaded);
    if (!LibraryFile{.path = settings_.loaded, .major = major}.is_known()) {
      found_.problem = fmt::format("this process has loaded {}, HIP {}, and Gabbro needs HIP {} or {}",
                                   settings_.loaded, major, kOldestMajor, kNewestMajor);
    } else if (!try_file(settings_.loaded)) {
      found_.problem = fmt::format("{}", fmt::join(notes_, "; "));
    }
    return std::move(found_);
  }

  bool try_loader() {
    if (settings_.root.empty()) {
      for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6"}) {
        found_.library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (found_.library != nullptr) {
          set_path(name);
          return true;
        }
        const std::string error = ::dlerror();
        if (!error.starts_with(name)) note(fmt::format("{}: {}", name, error));
      }
    }
    return std::ranges::any_of(loader_folders(settings_),
                               [&](const std::string& folder) { return try_folder(folder); });
  }

  bool try_folder(const std::string& folder) {
    std::error_code error;
    const fs::path parent = fs::path(folder).parent_path();
    for (const fs::path& link : {fs::path(folder), parent}) {
      if (!fs::is_symlink(link, error) || exists(link)) continue;
      note(fmt::format("{} is a broken link to {}", link.string(), fs::read_symlink(link, error).string()));
    }
    for (const LibraryFile& file : libraries_in(folder)) {
      if (!file.link_target.empty()) {
        note(fmt::format("{} is a broken link to {}", file.path, file.link_target));
      } else if (!file.is_known() && !any_version_) {
        note(file.major < kOldestMajor
                 ? fmt::format("{} is HIP {}, older than HIP {}", file.path, file.major, kOldestMajor)
                 : fmt::format("{} is HIP {}, newer than this version of Gabbro knows (GABBRO_HIP_PATH={} opens it)",
                               file.path, file.major, file.path));
      } else if (try_file(file.path)) {
        return true;
      }
    }
    return false;
  }

  // Whether the file is another one than the copy that the process has loaded.
  bool is_second(const std::string& path) const {
    std::error_code error;
    return !settings_.loaded.empty() && !fs::equivalent(path, settings_.loaded, error) && !error;
  }

  bool try_file(const std::string& path) {
    if (is_second(path)) {
      note(
          fmt::format("{} would be a second HIP runtime in this process, which has loaded {}", path, settings_.loaded));
      return false;
    }
    if (settings_.loaded.empty()) open_parts_of_hip(path);
    found_.library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (found_.library == nullptr) {
      const std::string error = ::dlerror();
      note(error.find(path) == std::string::npos ? fmt::format("{} cannot be loaded: {}", path, error) : error);
      return false;
    }
    set_path(path);
    return true;
  }

  void set_path(const std::string& path) {
    link_map* map = nullptr;
    found_.path = ::dlinfo(found_.library, RTLD_DI_LINKMAP, &map) == 0 && *map->l_name != '\0' ? map->l_name : path;
  }

  void note(std::string text) {
    std::ranges::replace(text, '\n', ' ');
    if (std::ranges::find(notes_, text) == notes_.end() && notes_.size() < 4) notes_.push_back(std::move(text));
  }
  std::string notes() const { return notes_.empty() ? "" : fmt::format("; {}", fmt::join(notes_, "; ")); }

  const Settings& settings_;
  bool any_version_ = false;
  std::vector<std::string> notes_;
  Found found_;
};

// The folder of HIP, and lib of TheRock's other wheels next to it: _rocm_sdk_libraries*.
std::vector<std::string> folders_with(const std::string& hip_path) {
  std::error_code error;
  std::vector<std::string> folders = {fs::path(hip_path).parent_path()};
  const fs::path real = fs::canonical(hip_path, error).parent_path();
  if (!error && real != folders[0]) folders.push_back(real);
  const fs::path packages = fs::path(hip_path).parent_path().parent_path().parent_path();
  for (fs::directory_iterator at(packages, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with("_rocm_sdk_libraries")) folders.push_back(at->path() / "lib");
  }
  return folders;
}

}  // namespace

Found open_hip(const Settings& settings) { return Search(settings).run(); }

void* open_with_hip(const Settings& settings, const std::string& hip_path, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return library;
  }
  std::vector<std::string> folders;
  if (!hip_path.empty()) folders = folders_with(hip_path);
  for (const Step& step : search_steps(settings)) folders.push_back(step.folder);
  for (const std::string& folder : folders) {
    for (const char* name : names) {
      const std::string path = folder.empty() ? name : folder + "/" + name;
      if (!folder.empty() && !exists(path)) continue;
      if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
  }
  return nullptr;
}

}  // namespace gabbro::hip_search
