// The form of calls of each family: readers of answers and grammars of answers are made of the same description.
#pragma once

#include <optional>
#include <string_view>
#include <variant>

#include "src/text/chat/calls/loose_calls.h"
#include "src/text/chat/calls/named_calls.h"
#include "src/text/chat/calls/object_calls.h"
#include "src/text/chat/calls/tag_calls.h"

namespace gabbro::text {

// std::monostate: of kNone.
using CallForm = std::variant<std::monostate, ObjectMarkers, NamedCallForm, TagForm, LooseForm>;
CallForm call_form(ToolCallFormat format);

// The names of formats in OutputFormat::source, such as "hermes"; nothing for other names.
std::string_view call_format_name(ToolCallFormat format);
std::optional<ToolCallFormat> find_call_format(std::string_view name);

}  // namespace gabbro::text
