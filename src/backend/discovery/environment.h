// The environment variables that change which GPUs a runtime sees, and how.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace gabbro::discovery {

// Variables that discovery and doctor read, if they are set. Tests make their own.
class Environment {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;
  explicit Environment(Values values = {}) : values_(std::move(values)) {}
  static Environment of_process();

  // A variable that is set; an empty value is a value.
  std::optional<std::string> get(std::string_view name) const {
    const auto found = values_.find(name);
    return found != values_.end() ? std::optional(found->second) : std::nullopt;
  }

 private:
  Values values_;
};

}  // namespace gabbro::discovery
