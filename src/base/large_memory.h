// Memory of the host for large reads and copies.
#pragma once

#include <cstddef>
#include <memory>

namespace gabbro {

// `bytes` bytes, not initialized. From 2 MiB on they begin at a multiple of that, and their whole multiples of 2 MiB
// are huge pages where the system has any: the kernel then pins 512 times fewer pages for a direct read, and gives the
// disk fewer and larger requests. Throws std::bad_alloc.
std::shared_ptr<void> allocate_large(size_t bytes);

}  // namespace gabbro
