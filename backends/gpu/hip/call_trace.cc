#include "backends/gpu/hip/call_trace.h"

#include <fmt/format.h>

#include <cstdlib>
#include <iterator>

namespace gabbro::gpu::hip {
namespace {

double microseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    out += code < 0x20 || code > 0x7e ? '?' : c;
  }
  return out + '"';
}

CallTrace::CallTrace(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w")) {}

CallTrace* CallTrace::of_process() {
  static const std::unique_ptr<CallTrace> trace = [] {
    const char* path = std::getenv("GABBRO_HIP_TRACE");
    return path != nullptr && *path != '\0' ? std::make_unique<CallTrace>(path) : nullptr;
  }();
  return trace.get();
}

CallTrace::Call CallTrace::begin(std::string_view name, const std::string& arguments) {
  // Valid for one trace per process, which is all there is outside tests.
  thread_local std::pair<const CallTrace*, int> thread = {nullptr, 0};
  const std::lock_guard lock(mutex_);
  if (thread.first != this) thread = {this, ++threads_};
  const auto now = std::chrono::steady_clock::now();
  const Call call = {++calls_, now};
  write_line(fmt::format(R"({{"n":{},"thread":{},"at":{:.1f},"call":"{}","args":[{}]}})", call.number, thread.second,
                         microseconds(now - start_), name, arguments));
  return call;
}

void CallTrace::end(const Call& call, int result, const std::string& outputs) {
  const double took = microseconds(std::chrono::steady_clock::now() - call.start);
  const std::lock_guard lock(mutex_);
  write_line(fmt::format(R"({{"n":{},"result":{},"us":{:.1f},"out":[{}]}})", call.number, result, took, outputs));
}

// Flushed: a crash of the runtime must not lose the call that it happened in.
void CallTrace::write_line(const std::string& line) {
  std::fprintf(file_.get(), "%s\n", line.c_str());
  std::fflush(file_.get());
}

std::string CallTrace::new_name(const std::string& kind) { return fmt::format("{}{}", kind, ++counts_[kind]); }

std::string CallTrace::handle(const std::string& kind, const void* object) {
  if (object == nullptr) return "null";
  const std::lock_guard lock(mutex_);
  std::string& name = handles_[kind][object];
  if (name.empty()) name = new_name(kind);
  return json_text(name);
}

std::string CallTrace::created_handle(const std::string& kind, const void* object) {
  if (object == nullptr) return "null";
  const std::lock_guard lock(mutex_);
  return json_text(handles_[kind][object] = new_name(kind));
}

std::string CallTrace::memory(const void* pointer) {
  if (pointer == nullptr) return "null";
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  auto region = regions_.upper_bound(address);
  if (region == regions_.begin()) return "\"host\"";
  region = std::prev(region);
  const uintptr_t offset = address - region->first;
  if (offset >= region->second.bytes) return "\"host\"";
  return json_text(offset == 0 ? region->second.name : fmt::format("{}+{}", region->second.name, offset));
}

std::string CallTrace::created_memory(const std::string& kind, const void* pointer, size_t bytes) {
  if (pointer == nullptr) return "null";
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::lock_guard lock(mutex_);
  // Regions that it overlaps were released meanwhile.
  auto old = regions_.lower_bound(address);
  if (old != regions_.begin() && std::prev(old)->first + std::prev(old)->second.bytes > address) old = std::prev(old);
  while (old != regions_.end() && old->first < address + bytes) old = regions_.erase(old);
  const std::string name = new_name(kind);
  regions_[address] = {bytes, name};
  return json_text(name);
}

}  // namespace gabbro::gpu::hip
