// Memory for small objects that a graph makes and frees by the hundred: lists of free blocks of each thread.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace gabbro {

// Free blocks of one size of this thread, which may come from other threads. A thread that ends frees its list; blocks
// that are freed after that go back to the heap.
template <size_t Bytes>
class FreeBlocks {
 public:
  static void* take() {
    List& list = list_;
    if (list.first == nullptr) return ::operator new(Bytes);
    Block* const block = list.first;
    list.first = block->next;
    --list.count;
    return block;
  }

  static void give(void* memory) {
    List& list = list_;
    if (list.room == 0) list.open();
    if (list.count >= list.room) return ::operator delete(memory, Bytes);
    list.first = new (memory) Block{list.first};
    ++list.count;
  }

 private:
  // A training step of a small model has some hundred nodes. 512 blocks of 300 bytes are 150 KB of a thread.
  static constexpr int kMostBlocks = 512;

  struct Block {
    Block* next;
  };

  // Has no destructor, so that it may be used until the thread's last instruction.
  struct List {
    Block* first;
    int count;
    int room;  // 0: not in use yet; -1: the thread ends

    void open() {
      struct Closer {
        ~Closer() {
          list_.room = -1;
          while (list_.first != nullptr) ::operator delete(std::exchange(list_.first, list_.first->next), Bytes);
          list_.count = 0;
        }
      };
      thread_local const Closer closer;
      static_cast<void>(&closer);
      room = kMostBlocks;
    }
  };
  static_assert(Bytes >= sizeof(Block));

  static inline constinit thread_local List list_{nullptr, 0, 0};
};

// An allocator for std::allocate_shared: one object a block.
template <class T>
struct PooledAllocator {
  using value_type = T;

  PooledAllocator() = default;
  template <class U>
  PooledAllocator(const PooledAllocator<U>& /*other*/) {}

  T* allocate(size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (count != 1 || !kPools) return static_cast<T*>(::operator new(count * sizeof(T)));
    return static_cast<T*>(FreeBlocks<sizeof(T)>::take());
  }
  void deallocate(T* memory, size_t count) {
    if (count != 1 || !kPools) return ::operator delete(memory, count * sizeof(T));
    FreeBlocks<sizeof(T)>::give(memory);
  }
  template <class U>
  bool operator==(const PooledAllocator<U>& /*other*/) const {
    return true;
  }

 private:
  // A sanitizer sees uses of freed memory only in what the heap has freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kPools = false;
#else
  static constexpr bool kPools = true;
#endif
};

// std::make_shared from the pool.
template <class T, class... Arguments>
std::shared_ptr<T> make_pooled(Arguments&&... arguments) {
  return std::allocate_shared<T>(PooledAllocator<T>(), std::forward<Arguments>(arguments)...);
}

}  // namespace gabbro
