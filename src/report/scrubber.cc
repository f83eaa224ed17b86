#include "src/report/scrubber.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <set>

namespace gabbro::report {
namespace {

bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Length of a text of the form of `pattern`, in which x stands for a hexadecimal digit; 0: it is not of that form.
size_t match(std::string_view rest, std::string_view pattern) {
  if (rest.size() < pattern.size()) return 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == 'x' ? !is_hex(rest[i]) : rest[i] != pattern[i]) return 0;
  }
  const bool ends = rest.size() == pattern.size() || !is_word(rest[pattern.size()]);
  return ends ? pattern.size() : 0;
}

// Length of "name@host.domain"; 0: not a mail address.
size_t mail_address(std::string_view rest) {
  const auto fits = [](char c) { return is_word(c) || c == '.' || c == '-' || c == '+'; };
  size_t at = 0;
  while (at < rest.size() && fits(rest[at])) ++at;
  if (at == 0 || at == rest.size() || rest[at] != '@') return 0;
  size_t end = at + 1;
  while (end < rest.size() && fits(rest[end])) ++end;
  const std::string_view host = rest.substr(at + 1, end - at - 1);
  return host.find('.') != std::string_view::npos ? end : 0;
}

bool starts_with_any_case(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && std::ranges::equal(text.substr(0, word.size()), word, [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) == b;
         });
}

// Length of "serial_number: " and the like before a value; 0: another text.
size_t serial_label(std::string_view rest) {
  for (const std::string_view word : {"serial", "unique_id", "unique id"}) {
    if (!starts_with_any_case(rest, word)) continue;
    size_t end = word.size();
    for (const std::string_view more : {"number", "_number", " number", "-number", "no", " no", "_no"}) {
      if (!starts_with_any_case(rest.substr(end), more)) continue;
      if (end + more.size() < rest.size() && is_word(rest[end + more.size()])) continue;
      end += more.size();
      break;
    }
    const size_t label = end;
    while (end < rest.size() && std::string_view(" \t:=\"").find(rest[end]) != std::string_view::npos) ++end;
    return end > label ? end : 0;
  }
  return 0;
}

constexpr std::array<std::string_view, 30> kCommonNames = {
    "root",    "user",   "admin",  "test",    "gpu",       "amd",   "rocm",     "hip",    "linux",  "kernel",
    "ubuntu",  "debian", "fedora", "arch",    "archlinux", "nixos", "opensuse", "suse",   "centos", "localhost",
    "machine", "host",   "server", "desktop", "render",    "video", "docker",   "podman", "gabbro", "nvidia"};

bool is_common(std::string_view name) { return std::ranges::find(kCommonNames, name) != kCommonNames.end(); }

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

Scrubber Scrubber::of_process(uint64_t salt) {
  Scrubber scrubber(salt);
  const std::string host = host_name(), short_host = host.substr(0, host.find('.'));
  if (host != short_host) scrubber.hide(host, "host");
  if (!is_common(short_host)) scrubber.hide(short_host, "host");
  std::set<std::string> users, homes;
  if (const passwd* entry = ::getpwuid(::getuid())) {
    users.insert(entry->pw_name);
    homes.insert(entry->pw_dir);
    const std::string real_name = entry->pw_gecos;
    users.insert(real_name.substr(0, real_name.find(',')));
  }
  for (const char* variable : {"USER", "LOGNAME", "SUDO_USER"}) {
    if (const char* value = std::getenv(variable)) users.insert(value);
  }
  if (const char* home = std::getenv("HOME")) homes.insert(home);
  homes.erase("/");
  for (const std::string& user : users) {
    if (!is_common(user)) scrubber.hide(user, "user");
  }
  for (const std::string& home : homes) scrubber.hide(home, "~");
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string prefix = program.parent_path().parent_path().string();
  if (!error && !prefix.starts_with("/usr") && !prefix.starts_with("/opt") && prefix != "/")
    scrubber.hide(prefix, "<prefix>");
  return scrubber;
}

void Scrubber::hide(const std::string& text, const std::string& replacement) {
  if (text.size() < 2) return;
  hidden_.emplace_back(text, replacement);
  std::ranges::stable_sort(hidden_, std::greater<>(), [](const auto& entry) { return entry.first.size(); });
}

// FNV-1a over the salt and the text.
std::string Scrubber::hashed(std::string_view identifier) const {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (int shift = 0; shift < 64; shift += 8) add(static_cast<unsigned char>(salt_ >> shift));
  for (const char c : identifier) add(static_cast<unsigned char>(c));
  return fmt::format("{:016x}", hash);
}

std::pair<size_t, std::string> Scrubber::identifier_at(std::string_view rest) const {
  for (const std::string_view folder : {"/home/", "/Users/", "/var/home/"}) {
    if (!rest.starts_with(folder)) continue;
    size_t end = folder.size();
    while (end < rest.size() && std::string_view("/ \t\n\"':;,)").find(rest[end]) == std::string_view::npos) ++end;
    if (end > folder.size()) return {end, "~"};
  }
  if (match(rest, "xx:xx:xx:xx:xx:xx") > 0 && !rest.substr(17).starts_with(":")) return {17, "<mac>"};
  constexpr std::string_view kUuid = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  if (match(rest, kUuid) > 0) {
    const std::string hash = hashed(rest.substr(0, kUuid.size()));
    return {kUuid.size(),
            fmt::format("{}-{}-{}-0000-000000000000", hash.substr(0, 8), hash.substr(8, 4), hash.substr(12))};
  }
  if (match(rest, "GPU-xxxxxxxxxxxxxxxx") > 0) return {20, "GPU-" + hashed(rest.substr(4, 16))};
  if (const size_t bytes = mail_address(rest)) return {bytes, "<mail>"};
  return {0, {}};
}

std::string Scrubber::clean(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const bool begins = at == 0 || !is_word(text[at - 1]);
    const bool begins_path = rest.front() == '/';
    size_t used = 0;
    // Identifiers come first: a name may be a part of one.
    if (begins || begins_path) {
      auto [bytes, replacement] = identifier_at(rest);
      out += replacement;
      used = bytes;
    }
    if (used == 0 && (begins || begins_path)) {
      for (const auto& [word, replacement] : hidden_) {
        if (!rest.starts_with(word) || (rest.size() > word.size() && is_word(rest[word.size()]))) continue;
        out += replacement;
        used = word.size();
        break;
      }
    }
    if (used == 0 && begins) {
      if (const size_t label = serial_label(rest)) {
        size_t end = label;
        while (end < rest.size() && (is_word(rest[end]) || rest[end] == '-')) ++end;
        out += rest.substr(0, label);
        // A number stays one: drivers' tables are read again.
        const std::string_view value = rest.substr(label, end - label);
        const bool number = !value.empty() && value.find_first_not_of("0123456789") == std::string_view::npos;
        const bool none = value.empty() || value == "0";
        out += none     ? std::string(value)
               : number ? std::to_string(std::stoull(hashed(value), nullptr, 16) >> 1)
                        : hashed(value);
        used = end;
      }
    }
    if (used == 0) {
      out += rest.front();
      used = 1;
    }
    at += used;
  }
  return out;
}

}  // namespace gabbro::report
