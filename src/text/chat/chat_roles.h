// The words of chat protocols.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace gabbro::text {

// A template may build a control token from one ('<|' + role + '|>'), which no other word can.
inline bool is_common_role(std::string_view role) {
  constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function", "ipython"};
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

}  // namespace gabbro::text
