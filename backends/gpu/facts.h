// Filling the fields of abi::DeviceFacts and abi::CheckResult.
#pragma once

#include <algorithm>
#include <string_view>

#include "gabbro/backend_abi.h"
#include "src/base/set_text.h"

namespace gabbro::gpu {

// As the kernel writes it: runtimes have "0000:C4:00.0" for "0000:c4:00.0".
inline void set_pci_address(abi::DeviceFacts& facts, std::string_view address) {
  set_text(facts.pci_address, address);
  for (char& c : facts.pci_address) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace gabbro::gpu
