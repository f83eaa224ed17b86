#include "src/ops/cases/cases.h"

#include <map>
#include <stdexcept>

#include "src/backend/registry.h"

namespace gabbro::cases {

const std::shared_ptr<Device>& device() {
  static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
  return opened;
}

Tensor ints(const Shape& shape, const std::vector<int32_t>& values) {
  return device()->upload(DType::i32, shape, values.data());
}

Tensor refused_input(DType dtype, const Shape& shape) {
  static const std::shared_ptr<Device> null = open_device("null");
  return null->upload(dtype, shape, nullptr);
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> joined;
    add_elementwise(joined);
    add_elementwise_binary(joined);
    add_reductions(joined);
    add_arrays(joined);
    add_products(joined);
    add_layers(joined);
    add_windows(joined);
    add_sequences(joined);
    return joined;
  }();
  return all;
}

const Entry& entry(const std::string& name) {
  static const std::map<std::string, const Entry*> by_name = [] {
    std::map<std::string, const Entry*> found;
    for (const Entry& e : entries()) {
      if (!found.emplace(e.name, &e).second) throw std::logic_error("two entries for " + e.name);
    }
    return found;
  }();
  return *by_name.at(name);
}

}  // namespace gabbro::cases
