// A row of a backend's list of kernels (kernel_table.cc of each backend): one per op, or per family of elementwise ops.
#pragma once

#include <string_view>

namespace gabbro::abi {

// For the last column of the table.
inline constexpr bool kInPlace = true;

// Make: a pointer to the function that makes a kernel for a request, or returns null if it has none. The first row that
// takes a request wins.
template <class Make>
struct KernelEntry {
  const char* op;  // null: `make` knows which ops it has
  Make make;
  bool in_place = false;  // writes outputs into inputs (abi::KernelRequest::aliases); other kernels never do

  bool has(std::string_view name) const { return op == nullptr || op == name; }
};

}  // namespace gabbro::abi
