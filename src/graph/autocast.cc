#include "gabbro/graph/autocast.h"

#include <utility>

#include "src/base/error.h"

namespace gabbro {
namespace {

thread_local std::optional<DType> current;

}  // namespace

std::optional<DType> autocast_dtype() { return current; }

Autocast::Autocast(std::optional<DType> dtype) : before_(current) {
  if (dtype && *dtype != DType::f16 && *dtype != DType::bf16)
    throw bad_input("[autocast] products cannot be computed in {}: only in f16 and bf16", dtype_name(*dtype));
  current = dtype;
}
Autocast::~Autocast() { current = before_; }

}  // namespace gabbro
