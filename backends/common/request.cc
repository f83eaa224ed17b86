#include "backends/common/request.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace gabbro::abi {
namespace {

const Attribute* find(const KernelRequest& request, const char* name) {
  for (int i = 0; i < request.attribute_count; ++i) {
    if (std::string_view(request.attributes[i].name) == name) return &request.attributes[i];
  }
  return nullptr;
}

bool is_sound(const TensorView& view) {
  if (view.rank < 0 || view.rank > kMaxRank) return false;
  return std::all_of(view.shape, view.shape + view.rank, [](int64_t extent) { return extent >= 0; });
}

}  // namespace

int64_t integer_attribute(const KernelRequest& request, const char* name, int64_t otherwise) {
  const Attribute* attribute = find(request, name);
  if (attribute == nullptr) return otherwise;
  return attribute->kind == AttributeKind::kReal ? static_cast<int64_t>(attribute->real) : attribute->integer;
}

double real_attribute(const KernelRequest& request, const char* name, double otherwise) {
  const Attribute* attribute = find(request, name);
  if (attribute == nullptr) return otherwise;
  return attribute->kind == AttributeKind::kInteger ? static_cast<double>(attribute->integer) : attribute->real;
}

int64_t elements(const TensorView& view) {
  int64_t count = 1;
  for (int i = 0; i < view.rank; ++i) count *= view.shape[i];
  return count;
}

int64_t own_elements(const TensorView& view) {
  int64_t count = 1;
  for (int axis = 0; axis < view.rank; ++axis) count *= view.strides[axis] != 0 ? view.shape[axis] : 1;
  return count;
}

bool is_contiguous(const TensorView& view) {
  int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    if (view.shape[i] != 1 && view.strides[i] != stride) return elements(view) == 0;
    stride *= view.shape[i];
  }
  return view.layout == Layout::kStrided;
}

bool is_plain(const TensorView& view, DType dtype) { return view.dtype == dtype && view.layout == Layout::kStrided; }

bool has_shape(const TensorView& view, DType dtype, std::initializer_list<int64_t> shape) {
  return is_plain(view, dtype) && is_contiguous(view) &&
         std::ranges::equal(std::span(view.shape, static_cast<size_t>(view.rank)), shape);
}

bool has_operands(const KernelRequest& request, int inputs, int outputs) {
  return request.input_count == inputs && request.output_count == outputs &&
         std::all_of(request.inputs, request.inputs + inputs, is_sound) &&
         std::all_of(request.outputs, request.outputs + outputs, is_sound);
}

bool has_aliases(const KernelRequest& request, int first, std::initializer_list<int> inputs) {
  const auto count = static_cast<int>(inputs.size());
  if (request.aliases == nullptr || first + count > request.output_count) return false;
  for (int i = 0; i < request.output_count; ++i) {
    const int wanted = i < first || i >= first + count ? -1 : inputs.begin()[i - first];
    if (request.aliases[i] != wanted || wanted >= request.input_count) return false;
  }
  return true;
}

bool has_any_alias(const KernelRequest& request) {
  return request.aliases != nullptr &&
         std::any_of(request.aliases, request.aliases + request.output_count, [](int32_t input) { return input >= 0; });
}

bool same_shape(const TensorView& a, const TensorView& b) {
  return a.rank == b.rank && std::equal(a.shape, a.shape + a.rank, b.shape);
}

}  // namespace gabbro::abi
