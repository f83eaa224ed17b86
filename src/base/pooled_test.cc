#include "src/base/pooled.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace gabbro {
namespace {

struct Counted {
  static inline int alive = 0;
  std::array<char, 100> bytes{};
  Counted() { ++alive; }
  ~Counted() { --alive; }
};

TEST(Pooled, ObjectsAreDestroyedAndTheirMemoryIsUsedAgain) {
  const void* first = nullptr;
  {
    const std::shared_ptr<Counted> one = make_pooled<Counted>();
    first = one.get();
    EXPECT_EQ(Counted::alive, 1);
  }
  EXPECT_EQ(Counted::alive, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_EQ(make_pooled<Counted>().get(), first);
#endif
}

TEST(Pooled, AWeakPointerOutlivesTheObject) {
  std::weak_ptr<Counted> weak;
  {
    const std::shared_ptr<Counted> one = make_pooled<Counted>();
    weak = one;
    EXPECT_EQ(weak.lock(), one);
  }
  EXPECT_EQ(weak.lock(), nullptr);
  const std::shared_ptr<Counted> two = make_pooled<Counted>();  // not in the block that `weak` holds
  EXPECT_EQ(weak.lock(), nullptr);
}

// More objects than a list holds; they are made by one thread and freed by others, which end before and after that.
TEST(Pooled, ObjectsMoveBetweenThreads) {
  constexpr int kObjects = 2000;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<Counted>> objects;
    std::thread([&] {
      for (int i = 0; i < kObjects; ++i) objects.push_back(make_pooled<Counted>());
    }).join();
    std::thread([&] { objects.resize(kObjects / 2); }).join();
    objects.clear();
  }
  EXPECT_EQ(Counted::alive, 0);
}

}  // namespace
}  // namespace gabbro
