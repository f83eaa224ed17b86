// However bytes are cut into pieces, whole characters and the text before a stop string come out the same.
#include <cstdlib>

#include "src/text/stop_matcher.h"
#include "src/text/unicode/utf8.h"
#include "src/text/unicode/utf8_stream.h"
#include "tests/fuzz/input.h"

using namespace gabbro::text;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  gabbro::fuzz::Input data(bytes, size);
  std::vector<std::string> stops;
  for (int64_t i = data.number(0, 6); i > 0; --i) stops.push_back(data.text(6));
  const auto step = static_cast<size_t>(data.number(1, 9));
  const std::string text = data.rest();

  Utf8Stream whole, cut;
  StopMatcher whole_matcher(stops), cut_matcher(stops);
  std::string expected = whole_matcher.push(whole.push(text));
  expected += whole_matcher.push(whole.flush());
  expected += whole_matcher.flush();
  std::string out;
  for (size_t at = 0; at < text.size(); at += step)
    out += cut_matcher.push(cut.push(std::string_view(text).substr(at, step)));
  out += cut_matcher.push(cut.flush());
  out += cut_matcher.flush();
  if (out != expected || whole_matcher.match() != cut_matcher.match()) std::abort();
  return 0;
}
