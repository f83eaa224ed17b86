#include "src/backend/device_reports.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <string_view>

namespace gabbro {
namespace {

constexpr size_t kShown = 8;      // launches
constexpr size_t kMostOpen = 64;  // devices whose backends are asked
constexpr int kMostText = 2048;

// A signal handler reaches nothing but globals. A slot for each open device.
std::array<std::atomic<const abi::Backend*>, kMostOpen> g_open{};
std::atomic<void (*)(const char*)> g_notice_handler{nullptr};
std::atomic<int> g_descriptor{-1};

void pass_notice(const char* line) {
  if (const auto handler = g_notice_handler.load()) handler(line);
}

// A text of bounded length that a signal handler may write.
struct Line {
  std::array<char, kMostText> text;
  size_t size = 0;

  void add(std::string_view more) {
    const size_t fits = std::min(more.size(), text.size() - size);
    std::memcpy(text.data() + size, more.data(), fits);
    size += fits;
  }
  // The names of the last launches; false: there are none.
  bool add_launches() {
    const size_t begin = size;
    std::array<const char*, kShown> names;
    std::array<const abi::Backend*, kMostOpen> asked;
    size_t asked_count = 0;
    for (const auto& slot : g_open) {
      const abi::Backend* const backend = slot.load(std::memory_order_acquire);
      const auto end = asked.begin() + asked_count;
      if (backend == nullptr || std::find(asked.begin(), end, backend) != end) continue;
      asked[asked_count++] = backend;
      const int32_t count = backend->last_launches(names.data(), kShown);
      for (int32_t i = 0; i < count; ++i) {
        if (size != begin) add(", ");
        add(names[static_cast<size_t>(i)]);
      }
    }
    return size != begin;
  }
};

void on_abort(int) {
  static Line line;  // the stack may be short
  line.size = 0;
  line.add("gabbro: the last launches were, the newest first: ");
  if (line.add_launches()) {
    line.add("\n");
    static_cast<void>(!::write(g_descriptor, line.text.data(), line.size));
  }
  // Installed for one signal: abort() goes on with the default action.
}

}  // namespace

std::string last_launches() {
  Line line;
  line.add_launches();
  return {line.text.data(), line.size};
}

void install_abort_handler(int descriptor) {
  g_descriptor = descriptor;
  struct sigaction action = {};
  action.sa_handler = on_abort;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGABRT, &action, nullptr);
}

void set_notice_handler(void (*handler)(const char* line)) { g_notice_handler = handler; }

void add_open_backend(const abi::Backend* backend) {
  if (backend->set_reporter != nullptr) backend->set_reporter(pass_notice);
  if (backend->last_launches == nullptr) return;
  for (auto& slot : g_open) {
    const abi::Backend* free = nullptr;
    if (slot.compare_exchange_strong(free, backend)) return;
  }
}

void remove_open_backend(const abi::Backend* backend) {
  for (auto& slot : g_open) {
    const abi::Backend* own = backend;
    if (slot.compare_exchange_strong(own, nullptr)) return;
  }
}

}  // namespace gabbro
