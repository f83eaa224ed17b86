// Filling the fields of abi::DeviceFacts and abi::CheckResult.
#pragma once

#include <algorithm>
#include <string_view>

#include "gabbro/backend_abi.h"

namespace gabbro::gpu {

// Text that does not fit is cut off.
template <size_t N>
void set_text(char (&target)[N], std::string_view text) {
  const size_t length = std::min(text.size(), N - 1);
  std::copy_n(text.data(), length, target);
  target[length] = '\0';
}

// As the kernel writes it: runtimes have "0000:C4:00.0" for "0000:c4:00.0".
inline void set_pci_address(abi::DeviceFacts& facts, std::string_view address) {
  set_text(facts.pci_address, address);
  for (char& c : facts.pci_address) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace gabbro::gpu
