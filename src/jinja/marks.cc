#include "src/jinja/marks.h"

namespace gabbro::jinja {

std::optional<int32_t> input_source(const Value& value) {
  std::optional<int32_t> found;
  const auto add = [&](std::optional<int32_t> source) {
    if (source) found = found && *found != *source ? kMixedInput : *source;
  };
  switch (value.kind()) {
    case Kind::kString:
      for (const InputSpan& span : value.text().spans()) add(span.source);
      break;
    case Kind::kList:
    case Kind::kTuple:
      for (const Value& item : value.items()) add(input_source(item));
      break;
    case Kind::kDict:
      for (const auto& [key, item] : value.dict().entries()) {
        add(input_source(key));
        add(input_source(item));
      }
      break;
    case Kind::kObject:
      return kMixedInput;
    default:
      break;
  }
  return found;
}

MarkedText mark_as(std::string bytes, std::initializer_list<const Value*> values) {
  std::optional<int32_t> found;
  for (const Value* value : values) {
    if (const auto source = input_source(*value)) found = found && *found != *source ? kMixedInput : *source;
  }
  return found ? MarkedText::input(std::move(bytes), *found) : MarkedText(std::move(bytes));
}

MarkedText map_pieces(const MarkedText& text, Mapping mapping) {
  MarkedText result;
  text.for_each_piece([&](std::string_view piece, const int32_t* source) {
    std::string mapped = mapping(piece);
    result.append(source != nullptr ? MarkedText::input(std::move(mapped), *source) : MarkedText(std::move(mapped)));
  });
  return result;
}

MarkedText map_text(const MarkedText& text, Mapping mapping) {
  if (!text.has_input()) return mapping(text.bytes());
  MarkedText by_pieces = map_pieces(text, mapping);
  std::string whole = mapping(text.bytes());
  if (by_pieces.bytes() == whole) return by_pieces;
  const Value source(text);
  return mark_as(std::move(whole), {&source});
}

}  // namespace gabbro::jinja
