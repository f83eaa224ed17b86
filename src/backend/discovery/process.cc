#include "src/backend/discovery/process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/backend/discovery/fields.h"
#include "src/backend/discovery/recorded_facts.h"

namespace gabbro::discovery {
namespace {

constexpr size_t kAccountsLimit = 1 << 20;

unsigned as_id(const std::string& text) { return static_cast<unsigned>(parse_number(text).value_or(0)); }

// The lines of /etc/passwd or /etc/group whose third field is `id`.
std::vector<std::string> account(const SystemRoot& root, std::string_view file, unsigned id) {
  for (const std::string& line : split(root.read(file, kAccountsLimit).value_or(""), "\n")) {
    auto fields = split(line, ":");
    if (fields.size() >= 3 && parse_number(fields[2]) == id) return fields;
  }
  return {};
}

std::string container_of(const SystemRoot& root) {
  const std::string cgroup = root.read("/proc/self/cgroup").value_or("");
  if (cgroup.find("kubepods") != std::string::npos) return "kubernetes";
  if (root.exists("/run/.containerenv")) return "podman";
  if (root.exists("/.dockerenv") || cgroup.find("/docker") != std::string::npos) return "docker";
  if (root.exists("/.singularity.d")) return "apptainer";
  return cgroup.find("/lxc") != std::string::npos ? "lxc" : std::string();
}

// In the first user namespace, all ids are their own: "0 0 4294967295".
bool maps_ids(const SystemRoot& root) {
  const auto fields = split(root.read("/proc/self/uid_map").value_or(""), " \t\n");
  return fields.size() >= 3 && (fields[0] != fields[1] || fields[2] != "4294967295");
}

int open_error(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return errno;
  ::close(descriptor);
  return 0;
}

}  // namespace

ProcessFacts read_process(const SystemRoot& root) {
  ProcessFacts process;
  const Fields status = parse_fields(root.read("/proc/self/status").value_or(""), ':');
  const auto users = split(text_field(status, "Uid"), " \t"), groups = split(text_field(status, "Gid"), " \t");
  if (users.size() > 1) process.user = as_id(users[1]);  // real, effective, ...
  if (groups.size() > 1) process.groups.push_back(as_id(groups[1]));
  for (const std::string& group : split(text_field(status, "Groups"), " \t")) process.groups.push_back(as_id(group));
  const auto names = account(root, "/etc/passwd", process.user);
  if (!names.empty()) process.user_name = names[0];
  process.container = container_of(root);
  process.rootless = maps_ids(root);
  process.selinux_enforcing = root.read_number("/sys/fs/selinux/enforce") == 1;
  return process;
}

DeviceNode read_node(const SystemRoot& root, const std::string& path, const ProcessFacts& process) {
  DeviceNode node{.path = path};
  struct stat info = {};
  if (const auto recorded = recorded_node(root, path)) {
    node.exists = true;
    node.owner = recorded->owner;
    node.group = recorded->group;
    node.mode = recorded->mode;
    node.open_error = recorded->open_error;
  } else if (::stat(root.path(path).c_str(), &info) == 0) {
    node.exists = true;
    node.owner = info.st_uid;
    node.group = info.st_gid;
    node.mode = info.st_mode & 07777;
    node.open_error = open_error(root.path(path));
  } else {
    node.open_error = ENOENT;
    return node;
  }
  const auto group = account(root, "/etc/group", node.group);
  if (!group.empty()) node.group_name = group[0];
  if (group.size() >= 4 && !process.user_name.empty()) {
    const auto members = split(group[3], ",");
    node.group_member = std::ranges::find(members, process.user_name) != members.end();
  }
  return node;
}

}  // namespace gabbro::discovery
