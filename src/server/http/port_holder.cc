#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "src/base/error.h"
#include "src/server/http/http_server.h"

namespace gabbro::server {
namespace {

namespace fs = std::filesystem;

constexpr int kListening = 0x0A;  // the state in /proc/net/tcp

// Inodes of the sockets that listen on a port.
void add_inodes(const char* table, int port, std::set<std::string>& inodes) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
    const size_t colon = local.rfind(':');
    if (colon == local.npos) continue;
    int local_port = 0, value = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), local_port, 16);
    std::from_chars(state.data(), state.data() + state.size(), value, 16);
    if (local_port == port && value == kListening) inodes.insert("socket:[" + inode + "]");
  }
}

bool holds_one(const fs::path& process, const std::set<std::string>& inodes) {
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (inodes.contains(fs::read_symlink(at->path(), unreadable).string())) return true;
  }
  return false;
}

}  // namespace

std::string holder_of_port(int port) {
  std::set<std::string> inodes;
  add_inodes("/proc/net/tcp", port, inodes);
  add_inodes("/proc/net/tcp6", port, inodes);
  if (inodes.empty()) return "";
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string pid = at->path().filename().string();
    if (!std::ranges::all_of(pid, [](char c) { return c >= '0' && c <= '9'; }) || !holds_one(at->path(), inodes))
      continue;
    std::ifstream file(at->path() / "comm");
    std::string name;
    std::getline(file, name);
    return fmt::format("{} (process {})", name, pid);
  }
  return "";
}

}  // namespace gabbro::server
