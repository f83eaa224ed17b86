// Long texts on several threads: cut where no token can cross, so that the tokens are the same as with one thread.
#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <thread>

#include "src/text/pipeline/pipeline_worker.h"
#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 17;  // about 10 ms of work; a thread starts in less than 0.1 ms
constexpr size_t kMostThreads = 16;

// work(i) for i in [0, count), each on a thread. The first error is thrown after all have ended.
void run_on_threads(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> errors(count);
  const auto guarded = [&](size_t i) {
    try {
      work(i);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(guarded, i);
  guarded(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// The begins of `count` chunks of about the same size, at characters.
std::vector<size_t> chunk_begins(std::string_view text, size_t count) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < count; ++i) {
    size_t at = text.size() / count * i;
    while (at > 0 && at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
    begins.push_back(at);
  }
  return begins;
}

void append_all(const std::vector<std::vector<int32_t>>& parts, std::vector<int32_t>& out) {
  for (const std::vector<int32_t>& part : parts) out.insert(out.end(), part.begin(), part.end());
}

struct Match {
  size_t begin, end;
};

// The matches of a chunk, found from its beginning on. If the chunk before goes on at the end of one of them, all
// later ones are matches of the whole text: a search depends on nothing but where it starts.
struct MatchChunk {
  std::vector<Match> matches;
  size_t first = 0;  // the first match that counts, and where the search for it began
  size_t start = 0;
  size_t end = 0;  // of its part of the text; 0: the chunks before have all of it
};

// The matches that begin in each chunk of a text. Nothing where one is empty: how the search goes on depends on the
// match before then.
std::optional<std::vector<MatchChunk>> find_in_chunks(const Regex& regex, std::string_view text, size_t chunks) {
  std::vector<size_t> begins = chunk_begins(text, chunks);
  begins.push_back(text.size());
  std::vector<MatchChunk> found(chunks);
  std::vector<char> finds_nothing(chunks);
  run_on_threads(chunks, [&](size_t i) {
    Regex::Matcher matcher(regex);
    for (size_t at = begins[i]; at < begins[i + 1] && matcher.find(text, at); at = matcher.end()) {
      finds_nothing[i] = finds_nothing[i] || matcher.end() == matcher.begin();
      if (finds_nothing[i] || matcher.begin() >= begins[i + 1]) break;
      found[i].matches.push_back({matcher.begin(), matcher.end()});
    }
  });
  if (std::find(finds_nothing.begin(), finds_nothing.end(), 1) != finds_nothing.end()) return std::nullopt;
  return found;
}

// Each chunk takes over from those before it. Matches in between go to the chunk before. False where one is empty.
bool join_chunks(const Regex& regex, std::string_view text, std::vector<MatchChunk>& found) {
  Regex::Matcher matcher(regex);
  for (MatchChunk& chunk : found) chunk.end = text.size();
  size_t before = 0;  // the last chunk that counts
  for (size_t i = 1; i < found.size(); ++i) {
    std::vector<Match>& last = found[before].matches;
    size_t at = last.size() > found[before].first ? last.back().end : found[before].start;
    const std::vector<Match>& own = found[i].matches;
    const auto ends_at = [&](size_t end) {
      return std::lower_bound(own.begin(), own.end(), end, [](const Match& m, size_t e) { return m.end < e; });
    };
    auto same = ends_at(at);
    while (same != own.end() && same->end != at && matcher.find(text, at)) {
      if (matcher.end() == matcher.begin()) return false;
      last.push_back({matcher.begin(), matcher.end()});
      at = matcher.end();
      same = ends_at(at);
    }
    if (same == own.end() || same->end != at) {
      found[i].matches.clear();
      found[i].end = 0;
      continue;
    }
    found[i].first = static_cast<size_t>(same - own.begin()) + 1;
    found[i].start = found[before].end = at;
    before = i;
  }
  return true;
}

}  // namespace

void Pipeline::encode_fragment(std::string_view text, bool at_origin, bool plain, size_t threads, Worker& worker,
                               std::vector<int32_t>& out) const {
  if (text.size() >= 2 * kChunkBytes) {
    const size_t available = threads > 0 ? threads : std::max(std::thread::hardware_concurrency(), 1U);
    const size_t chunks = std::min({available, kMostThreads, text.size() / kChunkBytes});
    if (chunks > 1 &&
        (encode_matches(text, at_origin, plain, chunks, out) || encode_chunks(text, at_origin, plain, chunks, out)))
      return;
  }
  worker.encode(text, at_origin, plain, out);
}

size_t Pipeline::next_cut(std::string_view text, size_t from) const {
  for (const auto& step : parts_.steps) {
    if (!step->passes(text)) return step->next_cut(text, from);
  }
  return parts_.model->next_cut(text, from);
}

// Cuts that the first step, or the model, knows. False: none are known.
bool Pipeline::encode_chunks(std::string_view text, bool at_origin, bool plain, size_t chunks,
                             std::vector<int32_t>& out) const {
  std::vector<size_t> cuts = {0};
  for (const size_t begin : chunk_begins(text, chunks)) {
    const size_t cut = begin == 0 ? 0 : next_cut(text, begin);
    if (cut == text.npos) break;
    if (cut > cuts.back()) cuts.push_back(cut);
  }
  const size_t count = cuts.size();
  if (count < 2) return false;
  cuts.push_back(text.size());
  std::vector<std::vector<int32_t>> parts(count);
  run_on_threads(count, [&](size_t i) {
    auto worker = take_worker();
    worker->encode(text.substr(cuts[i], cuts[i + 1] - cuts[i]), at_origin && i == 0, plain, parts[i]);
    workers_.put(std::move(worker));
  });
  append_all(parts, out);
  return true;
}

// A first step that isolates matches of a regular expression. False where it is another, or matches nothing.
bool Pipeline::encode_matches(std::string_view text, bool at_origin, bool plain, size_t chunks,
                              std::vector<int32_t>& out) const {
  if (parts_.steps.empty() || !parts_.steps[0]->isolates_matches()) return false;
  const Regex& regex = *parts_.steps[0]->regex();
  std::optional<std::vector<MatchChunk>> found = find_in_chunks(regex, text, chunks);
  if (!found || !join_chunks(regex, text, *found)) return false;
  std::vector<std::vector<int32_t>> parts(chunks);
  run_on_threads(chunks, [&](size_t i) {
    const MatchChunk& chunk = (*found)[i];
    if (chunk.end == 0) return;
    auto worker = take_worker();
    worker->begin(plain, parts[i]);
    size_t done = chunk.start;
    const auto emit = [&](size_t end) {
      if (end > done) worker->run(1, {text.substr(done, end - done), at_origin && done == 0});
      done = std::max(done, end);
    };
    for (size_t m = chunk.first; m < chunk.matches.size(); ++m) {
      emit(chunk.matches[m].begin);
      emit(chunk.matches[m].end);
    }
    emit(chunk.end);
    worker->end();
    workers_.put(std::move(worker));
  });
  append_all(parts, out);
  return true;
}

}  // namespace gabbro::text
