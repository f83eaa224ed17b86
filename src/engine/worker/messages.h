// The messages between a program and its worker process, as data. The program sends Load once, then Add, Cancel and
// Pause, and Shutdown or nothing at the end; the worker answers Load with Progress, then Loaded or LoadFailed, and each
// Add with Started, Text, and one end: Finished or Failed. Lost comes last, from a worker that ends since its device is
// lost. docs/design/engine.md describes who does what when.
#pragma once

#include <concepts>
#include <string>
#include <variant>

#include "gabbro/engine/generate.h"
#include "src/engine/engine_spec.h"
#include "src/engine/generation_loop.h"

namespace gabbro::worker {

// Raised with each change of a message: both ends refuse another one.
inline constexpr uint16_t kProtocolVersion = 4;
// The longest message; a prompt of a million tokens has 4 MB.
inline constexpr uint32_t kMaxMessageBytes = uint32_t{64} << 20;

// An error, as a message has it.
struct Fault {
  ErrorCode code = ErrorCode::kFailed;
  std::string message, hint;
};
Fault fault_of(const Error& error);
Error error_of(const Fault& fault);

// Facts that the program cannot see in the model's file.
struct LoadedFacts {
  ModelFacts model;
  uint64_t device_memory = 0;  // bytes that the device has in all
};

struct Load {
  EngineSpec spec;
};
struct Add {
  Ticket ticket = 0;
  GenerationRequest request;
};
struct Cancel {
  Ticket ticket = 0;
};
struct Shutdown {};
struct Pause {  // of a request: as GenerationLoop::pause
  Ticket ticket = 0;
  bool paused = false;
};

struct Progress {
  double fraction = 0;
};
struct Loaded {
  LoadedFacts facts;
};
struct LoadFailed {
  Fault fault;
};
struct Started {
  Ticket ticket = 0;
};
struct Text {
  Ticket ticket = 0;
  std::string text;
  std::vector<TokenScore> scores{};  // as Channel::scores
};
struct Finished {
  Ticket ticket = 0;
  GenerateResult result{};
  StreamingWork work{};  // of all requests so far
};
struct Failed {
  Ticket ticket = 0;
  Fault fault;
};
struct Lost {
  std::string cause;
};

// The index in the list is the message's number on the wire.
using Message = std::variant<Load, Add, Cancel, Shutdown, Progress, Loaded, LoadFailed, Started, Text, Finished, Failed,
                             Lost, Pause>;

// With its header. Throws bad_input for a message that is too long.
std::string encode(const Message& message);

// Cuts a stream of bytes into messages.
class MessageReader {
 public:
  void feed(std::string_view bytes);
  // The next whole message; nothing: it takes more bytes. Throws failed() that says what is wrong; the stream is of no
  // use from then on.
  std::optional<Message> next();

 private:
  std::string bytes_;
  size_t begin_ = 0;
};

}  // namespace gabbro::worker
