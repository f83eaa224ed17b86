// Files that options name for reading and writing: "-" is standard input or output, and pipes work too (/dev/stdin,
// /dev/fd/3, process substitution, FIFOs). Input is text: a byte order mark of UTF-8 is not part of it, and
// lines end in "\n", also where the file has "\r\n". Text in UTF-16 or UTF-32 is bad_input.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace gabbro::cli {

constexpr size_t kLargestInput = size_t{1} << 30;

// True of "-" and other names of standard input ("/dev/stdin").
bool is_standard_input(const std::string& path);
bool is_standard_output(const std::string& path);

// All of standard input. If nothing arrives for some seconds, a note on stderr names the awaited input; `advice` is
// added to it. Throws bad_input if it is closed, larger than kLargestInput, or was read before.
std::string read_standard_input(const std::string& advice = {});

// The whole of a file, a pipe or standard input. Throws bad_input that names `path`.
std::string read_input(const std::string& path);

// Writes all of `bytes`: to standard output, into a pipe or a device, else atomically to a file. Throws failed() that
// names `path`. Standard output may not be a terminal: bad_input.
void write_output(const std::string& path, std::span<const std::byte> bytes);
// Writes bytes in several pieces, in sequence.
void write_output(const std::string& path, std::span<const std::span<const std::byte>> pieces);

// A path of a model: throws bad_input for standard input and pipes, since models are mapped into memory.
void require_mappable(const std::string& path);

}  // namespace gabbro::cli
