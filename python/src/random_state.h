// Random numbers of compiled functions: a new key for each call.
#pragma once

#include "python/src/bind.h"

namespace gabbro::python {

Tensor next_key(const std::shared_ptr<Device>& device);

// While it lives, the keys that are given out are noted.
class KeyRecorder {
 public:
  explicit KeyRecorder(std::vector<Tensor>& keys);
  ~KeyRecorder();
  KeyRecorder(const KeyRecorder&) = delete;
  KeyRecorder& operator=(const KeyRecorder&) = delete;

 private:
  std::vector<Tensor>* before_;
};

}  // namespace gabbro::python
