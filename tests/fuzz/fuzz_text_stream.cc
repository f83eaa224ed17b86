// However bytes are cut into pieces, whole characters and the text before a stop string come out the same.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>

#include "src/text/stop_matcher.h"
#include "src/text/utf8.h"
#include "src/text/utf8_stream.h"

using namespace gabbro::text;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  std::vector<std::string> stops;
  for (size_t i = data.ConsumeIntegralInRange<size_t>(0, 6); i > 0; --i)
    stops.push_back(data.ConsumeRandomLengthString(6));
  const auto step = data.ConsumeIntegralInRange<size_t>(1, 9);
  const std::string text = data.ConsumeRemainingBytesAsString();

  Utf8Stream whole, cut;
  StopMatcher whole_matcher(stops), cut_matcher(stops);
  std::string expected =
      whole_matcher.push(whole.push(text)) + whole_matcher.push(whole.flush()) + whole_matcher.flush();
  std::string out;
  for (size_t at = 0; at < text.size(); at += step)
    out += cut_matcher.push(cut.push(std::string_view(text).substr(at, step)));
  out += cut_matcher.push(cut.flush());
  out += cut_matcher.flush();
  if (out != expected || whole_matcher.match() != cut_matcher.match()) std::abort();
  return 0;
}
