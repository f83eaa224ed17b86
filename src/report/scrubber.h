// Removal of personal data from the texts of a report: names of the host and of users, home folders, hardware
// addresses, serial numbers, mail addresses, and further words such as the names of model files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gabbro::report {

class Scrubber {
 public:
  // Knows no names yet. Identifiers are hashed with `salt`: equal ones stay equal within a report, and tell nothing
  // outside of it.
  explicit Scrubber(uint64_t salt) : salt_(salt) {}
  // With the names of this machine and its user. Names that many machines have ("ubuntu", "user") tell nothing, and
  // stay: they are also words of what the report is about.
  static Scrubber of_process(uint64_t salt);

  // Replaces `text` where it stands as a whole word or path component. Empty texts are left out.
  void hide(const std::string& text, const std::string& replacement);

  std::string clean(std::string_view text) const;

  // 16 hexadecimal digits.
  std::string hashed(std::string_view identifier) const;

 private:
  // Length of the identifier at the beginning of `rest`, and its replacement; 0: none begins there.
  std::pair<size_t, std::string> identifier_at(std::string_view rest) const;

  uint64_t salt_;
  std::vector<std::pair<std::string, std::string>> hidden_;  // the longest first
};

}  // namespace gabbro::report
