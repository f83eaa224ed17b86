// Writes lines of memory back and drops them from all of a processor's caches: what is read next comes from memory.
// For measuring the speed of memory with fewer bytes than a cache holds.
#pragma once

#include <cstddef>

namespace gabbro {

// Whether this processor can: x86-64 and 64-bit ARM can.
bool can_flush_caches();

void flush_from_caches(const void* memory, size_t bytes);

}  // namespace gabbro
