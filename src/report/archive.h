// The archive of a report: a tar file (ustar) of small text files, compressed with zstd.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro::report {

struct ReportFile {
  std::string name;  // "machine/tree/proc/meminfo": relative, at most 255 bytes
  std::string content;
};

std::string pack_archive(const std::vector<ReportFile>& files);
// Throws bad_input for bytes that are not such an archive; `path` names them in the message.
std::vector<ReportFile> unpack_archive(std::string_view bytes, const std::string& path);

// Replaces the file in one step: a crash leaves the one before. Throws Error if it cannot be written.
void write_archive(const std::string& path, const std::vector<ReportFile>& files);
std::vector<ReportFile> read_archive(const std::string& path);

}  // namespace gabbro::report
