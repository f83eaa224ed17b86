// The file `facts` at the root of a recorded tree: what plain files cannot hold. One fact a line:
//   node /dev/kfd uid=0 gid=109 mode=0660 open=EACCES        open: ok, or the name of the error
//   runtime hip status=ok path=/opt/rocm/lib/libamdhip64.so.7 version=7.2.53211 devices=0000:03:00.0,0000:0b:00.0
//   runtime cuda status=missing message=...                  the message takes the rest of the line
#pragma once

#include <optional>
#include <string>

#include "src/backend/discovery/fields.h"
#include "src/backend/discovery/system_root.h"

namespace gabbro::discovery {

struct RecordedNode {
  unsigned owner = 0, group = 0, mode = 0;
  int open_error = 0;
};

// Nothing on the real machine, and where the tree says nothing of it.
std::optional<RecordedNode> recorded_node(const SystemRoot& root, const std::string& path);

// The fields after "runtime <name>"; nothing as above.
std::optional<Fields> recorded_runtime(const SystemRoot& root, const std::string& name);

}  // namespace gabbro::discovery
