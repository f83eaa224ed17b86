// Recording of calls through wrappers made from a table of functions, with functions of this file in place of HIP's.
#include "backends/gpu/hip/call_trace.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "backends/gpu/hip/recorded_call.h"

struct ihipTestStream_t;  // opaque, as HIP's

namespace gabbro::gpu::hip {
namespace {

using nlohmann::json;

enum Error { kSuccess = 0, kOutOfMemory = 2 };
using Stream = ihipTestStream_t*;
alignas(16) char heap[8192];
int objects[4];

Error allocate(void** pointer, size_t bytes) {
  if (bytes > sizeof heap) return kOutOfMemory;
  *pointer = heap;
  return kSuccess;
}
Error create(Stream* stream, unsigned) {
  static int made = 0;
  *stream = reinterpret_cast<Stream>(&objects[made++ % 2]);
  return kSuccess;
}
Error copy(void*, const void*, size_t, Stream) { return kSuccess; }
Error launch(Stream, unsigned, void**, void**) { return kSuccess; }
Error free_bytes(size_t* free) { return *free = 77, kSuccess; }
Error address(char* text, int, int) { return std::strcpy(text, "0000:03:00.0"), kSuccess; }
Error find(const char*) { return kOutOfMemory; }
const char* error_text(Error) { return "text"; }

struct Table {
  Error (*allocate_)(void**, size_t) = allocate;
  Error (*create_)(Stream*, unsigned) = create;
  Error (*copy_)(void*, const void*, size_t, Stream) = copy;
  Error (*launch_)(Stream, unsigned, void**, void**) = launch;
  Error (*free_bytes_)(size_t*) = free_bytes;
  Error (*address_)(char*, int, int) = address;
  Error (*find_)(const char*) = find;
  Error (*missing_)(int) = nullptr;
  const char* (*error_text_)(Error) = error_text;
};

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(CallTrace, WritesCallsWithNamesForPointers) {
  const std::string path = testing::TempDir() + "gabbro_trace_" + std::to_string(::getpid());
  {
    CallTrace trace(path);
    ASSERT_TRUE(trace.is_open());
    Table hip;
    record_calls<"hipMalloc">(trace, hip.allocate_);
    record_calls<"create">(trace, hip.create_);
    record_calls<"copy">(trace, hip.copy_);
    record_calls<"launch">(trace, hip.launch_);
    record_calls<"free">(trace, hip.free_bytes_);
    record_calls<"address">(trace, hip.address_);
    record_calls<"find">(trace, hip.find_);
    record_calls<"missing">(trace, hip.missing_);
    record_calls<"text">(trace, hip.error_text_);
    EXPECT_EQ(hip.missing_, nullptr);
    EXPECT_EQ(hip.error_text_, error_text);  // returns no error code

    void* memory = nullptr;
    EXPECT_EQ(hip.allocate_(&memory, 4096), kSuccess);
    Stream streams[3];
    for (Stream& stream : streams) EXPECT_EQ(hip.create_(&stream, 1), kSuccess);
    const char secret[] = "secret";
    EXPECT_EQ(hip.copy_(static_cast<char*>(memory) + 16, secret, 6, streams[1]), kSuccess);
    void* arguments[] = {memory};
    EXPECT_EQ(hip.launch_(streams[0], 5, arguments, nullptr), kSuccess);
    size_t free = 0;
    hip.free_bytes_(&free);
    EXPECT_EQ(free, 77U);
    char text[32];
    hip.address_(text, sizeof text, 0);
    std::thread([&] { EXPECT_EQ(hip.find_("kernel \"x\""), kOutOfMemory); }).join();
    EXPECT_EQ(hip.allocate_(&memory, 1 << 20), kOutOfMemory);
    EXPECT_EQ(hip.allocate_(&memory, 8192), kSuccess);  // the same address again
    hip.copy_(memory, nullptr, 1, nullptr);
  }
  const std::vector<json> lines = lines_of(path);
  ::unlink(path.c_str());
  ASSERT_EQ(lines.size(), 24U);
  std::vector<std::string> calls;
  for (size_t i = 0; i < lines.size(); i += 2) {
    EXPECT_EQ(lines[i]["n"], i / 2 + 1);
    EXPECT_EQ(lines[i + 1]["n"], i / 2 + 1);
    EXPECT_GE(lines[i + 1]["us"], 0);
    calls.push_back(lines[i]["thread"].dump() + " " + lines[i]["call"].get<std::string>() + lines[i]["args"].dump() +
                    " " + lines[i + 1]["result"].dump() + lines[i + 1]["out"].dump());
  }
  EXPECT_THAT(calls,
              testing::ElementsAre(R"(1 hipMalloc["data",4096] 0["mem1"])", R"(1 create["data",1] 0["teststream1"])",
                                   R"(1 create["data",1] 0["teststream2"])", R"(1 create["data",1] 0["teststream3"])",
                                   R"(1 copy["mem1+16","host",6,"teststream2"] 0[])",
                                   R"(1 launch["teststream3",5,"data",null] 0[])", R"(1 free["data"] 0[77])",
                                   R"(1 address["data",32,0] 0["0000:03:00.0"])", R"(2 find["kernel \"x\""] 2[])",
                                   R"(1 hipMalloc["data",1048576] 2[])", R"(1 hipMalloc["data",8192] 0["mem2"])",
                                   R"(1 copy["mem2",null,1,null] 0[])"));
}

TEST(CallTrace, AFileThatCannotBeWrittenIsKnown) {
  const CallTrace trace("/no/such/folder/trace");
  EXPECT_FALSE(trace.is_open());
  EXPECT_EQ(trace.path(), "/no/such/folder/trace");
}

}  // namespace
}  // namespace gabbro::gpu::hip
