// Any bytes as a GGUF file: an Error of one line, or a file whose every value and tensor byte can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"

namespace {

using namespace gabbro::gguf;

void read(const Value& value, size_t& sum) {
  sum += value.describe().size() + value.bytes();
  if (const auto text = value.as<std::string_view>()) {
    for (const char c : *text) sum += static_cast<unsigned char>(c);
  }
  if (const auto texts = value.as_vector<std::string_view>()) sum += texts->size();
  if (const auto numbers = value.as_vector<double>()) sum += numbers->size();
  if (const auto numbers = value.as_vector<uint32_t>()) sum += numbers->size();
  for (const Value& element : value.elements(1000)) read(element, sum);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  size_t sum = 0;
  try {
    const Part part = parse({reinterpret_cast<const std::byte*>(data), size}, "x.gguf");
    for (const Field& field : part.fields) read(field.value, sum);
    for (const TensorInfo& tensor : part.tensors) {
      sum += static_cast<size_t>(tensor.elements()) + gabbro::quote(tensor.name).size();
      for (const std::byte byte : tensor.data) sum += std::to_integer<size_t>(byte);
    }
  } catch (const gabbro::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
  volatile size_t sink = sum;
  (void)sink;
  return 0;
}
