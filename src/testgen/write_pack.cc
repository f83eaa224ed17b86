#include "src/testgen/write_pack.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/base/error.h"

namespace gabbro::testgen {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "case.py";  // every pack has it

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw failed("{}: cannot be written: {}", path.string(), std::strerror(errno));
}

void write_files(const fs::path& folder, const std::map<std::string, std::string>& files) {
  for (const auto& [name, text] : files) write_file(folder / name, text);
}

// Whether a folder has exactly these files with these contents.
bool has_files(const fs::path& folder, const std::map<std::string, std::string>& files) {
  return std::ranges::all_of(files, [&](const auto& entry) {
    std::ifstream file(folder / entry.first, std::ios::binary);
    return file && std::string(std::istreambuf_iterator<char>(file), {}) == entry.second;
  });
}

// Writes a folder under another name first, so that it is there as a whole or not at all. `old` takes the place of one
// that is there meanwhile.
void write_whole(const fs::path& clean, const auto& write) {
  const std::string ending = fmt::format(".{}.partial", ::getpid());
  const fs::path fresh = clean.string() + ending, old = clean.string() + ending + ".old";
  std::error_code error;
  try {
    fs::remove_all(fresh);
    fs::create_directory(fresh);
    write(fresh);
    if (fs::exists(clean)) fs::rename(clean, old);
    fs::rename(fresh, clean);
    fs::remove_all(old, error);
  } catch (const Error&) {
    fs::remove_all(fresh, error);
    throw;
  } catch (const fs::filesystem_error& problem) {
    fs::remove_all(fresh, error);
    if (!fs::exists(clean, error) && fs::exists(old, error)) fs::rename(old, clean, error);
    throw failed("{}: cannot be written: {}", clean.string(), problem.code().message());
  }
}

void check_target(const fs::path& target, bool replace) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(target, ignored))) return;
  if (!fs::is_directory(fs::symlink_status(target, ignored)))
    throw bad_input("{}: exists and is not a folder", target.string());
  if (fs::is_empty(target, ignored)) return;
  if (!fs::exists(target / kMark, ignored) || !fs::exists(target / "exceptions.json", ignored)) {
    throw bad_input("{}: is there and holds no pack", target.string());
  }
  if (!replace) throw bad_input("{}: is there: --force replaces it", target.string());
}

}  // namespace

void write_pack(const Pack& pack, const std::string& folder, bool replace, bool alone) {
  const fs::path target = fs::path(folder).lexically_normal();
  check_target(target, replace);
  std::error_code error;
  const fs::path clean = target.has_filename() ? target : target.parent_path();
  if (clean.has_parent_path()) fs::create_directories(clean.parent_path(), error);
  if (error) throw failed("{}: cannot be created: {}", clean.parent_path().string(), error.message());
  write_whole(clean, [&](const fs::path& fresh) {
    write_files(fresh, pack.files);
    if (!alone) return;
    fs::create_directory(fresh / kSharedFolder);
    write_files(fresh / kSharedFolder, shared_files());
  });
}

void write_shared(const std::string& folder, bool replace) {
  const fs::path target = fs::path(folder) / kSharedFolder;
  const auto files = shared_files();
  std::error_code error;
  if (fs::exists(fs::symlink_status(target, error))) {
    if (has_files(target, files)) return;
    if (!fs::exists(target / "plugin.py", error)) throw bad_input("{}: is there and is not of packs", target.string());
    if (!replace) throw bad_input("{}: is of another version: --force replaces it", target.string());
  }
  fs::create_directories(folder, error);
  if (error) throw failed("{}: cannot be created: {}", folder, error.message());
  write_whole(target, [&](const fs::path& fresh) { write_files(fresh, files); });
}

}  // namespace gabbro::testgen
