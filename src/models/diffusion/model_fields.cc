#include "src/models/diffusion/model_fields.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "src/base/error.h"

namespace gabbro::diffusion {

int64_t positive_or(const JsonNode& config, std::string_view name, int64_t other, int64_t most) {
  const auto field = config.find(name);
  return field ? field->integer(1, most) : other;
}

std::vector<int64_t> positive_list(const JsonNode& config, std::string_view name, size_t count, int64_t other,
                                   int64_t most) {
  const auto field = config.find(name);
  if (!field || !field->is_array()) return std::vector<int64_t>(count, field ? field->integer(1, most) : other);
  std::vector<int64_t> numbers;
  for (const JsonNode& element : field->elements()) numbers.push_back(element.integer(1, most));
  if (numbers.size() != count)
    throw bad_input("{}: has {} numbers for {} levels", field->path(), numbers.size(), count);
  return numbers;
}

double number_or(const JsonNode& config, std::string_view name, double other) {
  const auto field = config.find(name);
  return field ? field->number() : other;
}

void require_field(const JsonNode& config, std::string_view name, std::initializer_list<const char*> allowed) {
  const auto field = config.find(name);
  if (!field) return;
  const std::string value = field->value().dump();
  if (std::ranges::find(allowed, std::string_view(value)) != allowed.end()) return;
  throw bad_input("{}: {} is not supported; expected {}", field->path(), value, fmt::join(allowed, " or "));
}

}  // namespace gabbro::diffusion
