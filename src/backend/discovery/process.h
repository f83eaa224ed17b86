// Rights of this process: its user and groups, the device nodes it may open, the container it runs in.
#pragma once

#include <string>
#include <vector>

#include "src/backend/discovery/system_root.h"

namespace gabbro::discovery {

struct DeviceNode {
  std::string path;  // "/dev/kfd"
  bool exists = false;
  unsigned owner = 0, group = 0, mode = 0;
  std::string group_name;     // "render"; empty where /etc/group does not know it
  bool group_member = false;  // /etc/group lists this user in it, whether or not the process has it yet
  int open_error = 0;         // errno of opening it for reading and writing; 0: it can be opened
};

struct ProcessFacts {
  unsigned user = 0;
  std::string user_name;  // empty where /etc/passwd does not know it
  std::vector<unsigned> groups;
  std::string container;  // "docker", "podman", "kubernetes", "lxc", "apptainer"; empty: none
  bool rootless = false;  // in a user namespace: root here is another user outside
  bool selinux_enforcing = false;
};

ProcessFacts read_process(const SystemRoot& root);

// Facts that a recorded tree cannot hold are read from the lines "node <path> uid=.. gid=.. mode=.. open=<errno>" of
// its file `facts` (see docs/guides/rocm_guide.md).
DeviceNode read_node(const SystemRoot& root, const std::string& path, const ProcessFacts& process);

}  // namespace gabbro::discovery
