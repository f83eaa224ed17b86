// Messages of a worker process from hostile bytes, however they are cut: an error or whole messages, which are the same
// after another round.
#include <cstdlib>

#include "src/base/error.h"
#include "src/engine/worker/messages.h"
#include "tests/fuzz/input.h"

using namespace gabbro::worker;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  gabbro::fuzz::Input data(bytes, size);
  const auto step = static_cast<size_t>(data.number(1, 64));
  const std::string stream = data.rest();
  MessageReader reader;
  try {
    for (size_t at = 0; at < stream.size(); at += step) {
      reader.feed(std::string_view(stream).substr(at, step));
      while (const std::optional<Message> message = reader.next()) {
        const std::string once = encode(*message);
        MessageReader again;
        again.feed(once);
        const std::optional<Message> copy = again.next();
        if (!copy || again.next() || encode(*copy) != once) std::abort();
      }
    }
  } catch (const gabbro::Error&) {
    // Damaged: the reader is of no use from here on.
  }
  return 0;
}
