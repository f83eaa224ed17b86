#include "backends/common/index_rule.h"

#include <limits>
#include <string_view>

namespace gabbro::abi {

IndexRule read_index_rule(const KernelRequest& request, int64_t size) {
  const bool labels = integer_attribute(request, "labels", 0) != 0;
  IndexRule rule{.size = size,
                 .least = labels ? 0 : -size,
                 .ignored = integer_attribute(request, "ignored", IndexRule::kNone),
                 .op = request.op,
                 .axis = integer_attribute(request, "axis", 0)};
  for (int i = 0; i < request.attribute_count; ++i) {
    const Attribute& attribute = request.attributes[i];
    if (std::string_view(attribute.name) == "for" && attribute.kind == AttributeKind::kText) rule.op = attribute.text;
  }
  return rule;
}

std::string bad_index_message(const IndexRule& rule, int64_t index) {
  return "[" + rule.op + "] " + (rule.least == 0 ? "label " : "index ") + std::to_string(index) + " is outside axis " +
         std::to_string(rule.axis) + " of size " + std::to_string(rule.size);
}

bool read_resolve_index(const KernelRequest& request, ResolveRequest& resolve) {
  const bool has_outer = request.input_count == 2;
  if (!has_operands(request, has_outer ? 2 : 1, 1)) return false;
  const TensorView &x = request.inputs[0], &y = request.outputs[0];
  resolve = {.count = elements(x),
             .repeats = integer_attribute(request, "repeats", 1),
             .size = integer_attribute(request, "size", 0),
             .dtype = x.dtype,
             .has_outer = has_outer};
  const bool integer = x.dtype >= DType::i8 && x.dtype <= DType::i64;
  if (!integer || !is_plain(x, x.dtype) || !is_contiguous(x) || !is_plain(y, DType::i32) || !is_contiguous(y))
    return false;
  if (has_outer && (resolve.repeats != 1 || !is_plain(request.inputs[1], DType::i32) ||
                    !is_contiguous(request.inputs[1]) || elements(request.inputs[1]) != resolve.count))
    return false;
  if (resolve.size < (resolve.count > 0 ? 1 : 0) || resolve.repeats < 1) return false;
  return resolve.size * resolve.repeats <= std::numeric_limits<int32_t>::max() &&
         elements(y) == resolve.count * resolve.repeats;
}

}  // namespace gabbro::abi
