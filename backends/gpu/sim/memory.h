// The simulator's device memory: each allocation is between guard pages, its end as close to the next guard page as its
// alignment of 64 bytes allows. The rest of its pages is filled with a pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace gabbro::gpu::sim {

inline constexpr size_t kPage = 4096;

void* allocate(size_t bytes, bool pinned = false);  // null where there is no memory
bool is_pinned(const void* memory);                 // whether it is inside an allocation of pinned memory
// Pages that no access may touch; released like an allocation. `commit` makes a piece of them accessible, and
// `decommit` takes exactly such a piece back, else false.
void* reserve(size_t bytes);
void commit(void* begin, size_t bytes);
bool decommit(void* begin, size_t bytes);
bool has_pieces(const void* reserved);
size_t committed_bytes();
void release_all();           // for tests of memory that is lost
void release(void* pointer);  // throws std::logic_error if it is not an allocation

// Looks for writes close to an allocation, which no guard page catches, and restores the pattern: "a write 4 bytes
// behind an allocation of 400 bytes", or empty.
std::string find_overwritten();

// "access at byte 400 of the allocation of 400 bytes", for messages.
std::string describe_address(const void* address);

// "bytes 0 to 400 of an allocation of 400 bytes".
std::string describe_range(std::uintptr_t begin, std::uintptr_t end);

// The pages of this memory, in an allocation, that have nothing else: from the first byte of one to the end of another.
std::pair<std::uintptr_t, std::uintptr_t> own_pages(const void* memory, size_t bytes);
// PROT_NONE and so on, of such pages.
void set_protection(std::uintptr_t begin, std::uintptr_t end, int protection);

size_t allocation_bytes(const void* pointer);  // of the allocation that begins there; 0: none
size_t allocated_bytes();
size_t allocation_count();

}  // namespace gabbro::gpu::sim
