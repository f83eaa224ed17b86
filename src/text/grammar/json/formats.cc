#include "src/text/grammar/json/formats.h"

#include <map>
#include <string>

namespace gabbro::text::grammar {
namespace {

// RFC 3339, with the days of each month and leap days; years from 0001; no leap seconds.
constexpr std::string_view kYear = R"((\d{3}[1-9]|\d\d[1-9]0|\d[1-9]00|[1-9]000))";
constexpr std::string_view kDays =
    R"(((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))";
constexpr std::string_view kLeapDay =
    R"((\d\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)";
constexpr std::string_view kTime = R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
// RFC 1123: labels of at most 63 characters, at most 253 in all, which four labels keep.
constexpr std::string_view kLabel = R"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)";
constexpr std::string_view kByte = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";

std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  // h groups, "::", and at most 7 - h groups.
  std::string pattern = "(" + group + ":){7}" + group;
  for (int before = 0; before <= 7; ++before) {
    const std::string left = before == 0 ? "" : group + "(:" + group + "){" + std::to_string(before - 1) + "}";
    const int most = 7 - before;
    pattern += "|" + left + "::";
    if (most > 0) pattern += "(" + group + "(:" + group + "){0," + std::to_string(most - 1) + "})?";
  }
  return pattern;
}

std::map<std::string, std::string, std::less<>> make_formats() {
  const std::string date = "(" + std::string(kYear) + "-" + std::string(kDays) + "|" + std::string(kLeapDay) + ")";
  const std::string time(kTime), label(kLabel), byte(kByte);
  const std::string host = label + "(\\." + label + "){0,3}";
  const std::string part = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";
  return {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration",
       R"(P((\d{1,9}D|\d{1,9}M(\d{1,9}D)?|\d{1,9}Y(\d{1,9}M(\d{1,9}D)?)?)(T(\d{1,9}S|\d{1,9}M(\d{1,9}S)?|\d{1,9}H(\d{1,9}M(\d{1,9}S)?)?))?)"
       R"(|T(\d{1,9}S|\d{1,9}M(\d{1,9}S)?|\d{1,9}H(\d{1,9}M(\d{1,9}S)?)?)|\d{1,9}W))"},
      {"email", part + "(\\." + part + "){0,2}@" + label + "(\\." + label + "){1,3}"},
      {"hostname", host},
      {"ipv4", byte + "(\\." + byte + "){3}"},
      {"ipv6", ipv6()},
      {"uuid", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
      {"uri",
       "[A-Za-z][A-Za-z0-9+.-]*://([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+(:\\d{1,5})?"
       "(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*"
       "(\\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
       "(#([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"},
  };
}

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view name) {
  static const auto formats = make_formats();
  const auto found = formats.find(name);
  if (found == formats.end()) return std::nullopt;
  return found->second;
}

}  // namespace gabbro::text::grammar
