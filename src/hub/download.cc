#include "src/hub/download.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>

#include "src/hub/backoff.h"
#include "src/hub/file_download.h"
#include "src/hub/hub_client.h"

namespace gabbro::hub {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(100);

// The server sent the whole file where a range was asked for.
struct RangeIgnored {};

struct Job {
  FileDownload* file = nullptr;
  ByteRange range;
  bool verify = false;  // nothing is missing: check the hash
};

// "bytes 0-99/1234": the first number, and the last.
std::optional<std::pair<uint64_t, uint64_t>> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return {};
  uint64_t begin = 0, size = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data() + kUnit.size(), end, begin);
  const size_t slash = text.find('/');
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-' || slash == std::string_view::npos) return {};
  const auto last = std::from_chars(text.data() + slash + 1, end, size);
  if (last.ec != std::errc() || last.ptr != end) return {};
  return std::pair{begin, size};
}

class Downloader {
 public:
  Downloader(const Settings& settings, const RepoCache& cache, const std::string& commit,
             const std::vector<RepoFile>& files, const DownloadOptions& options)
      : settings_(settings), cache_(cache), commit_(commit), options_(options) {
    for (const RepoFile& file : files) {
      total_ += file.size;
      const auto same = [&](const auto& other) { return other->file().blob == file.blob; };
      if (std::ranges::any_of(waiting_, same)) {  // two names of one content: one download
        done_ += file.size;
      } else {
        waiting_.push_back(std::make_unique<FileDownload>(cache, file, options.connections));
      }
    }
    // Small files first: their errors (no access, for one) come before the hours of the large ones.
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [](const auto& a, const auto& b) { return a->file().size < b->file().size; });
  }

  uint64_t run() {
    std::vector<std::thread> threads;
    try {
      for (int i = 0; i < options_.connections; ++i) threads.emplace_back([this] { work(); });
    } catch (const std::system_error&) {  // a limit of threads: fewer connections do
      if (threads.empty()) throw;
    }
    {
      std::unique_lock lock(mutex_);
      running_ += static_cast<int>(threads.size());
      while (running_ > 0) {
        changed_.wait_for(lock, kPoll);
        if (options_.canceled != nullptr && *options_.canceled) stop_ = true;
        lock.unlock();
        if (options_.progress) options_.progress(std::min<uint64_t>(done_, total_), total_);
        lock.lock();
      }
    }
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    if (stop_) throw Error(ErrorCode::kInterrupted, "interrupted");
    return received_;
  }

 private:
  void work() {
    try {
      HubClient client(settings_, stop_, options_.retries);
      while (std::optional<Job> job = next_job()) run_job(client, *job);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_ && !stop_) error_ = std::current_exception();
      stop_ = true;
    }
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  // Waits while others have all that is left. Empty: everything is there, or the download ends.
  std::optional<Job> next_job() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      for (const auto& file : active_) {
        if (file->todo.empty()) continue;
        Job job{file.get(), file->todo.front()};
        file->todo.pop_front();
        ++file->running;
        return job;
      }
      if (std::optional<Job> job = open_next()) return job;
      const bool all = waiting_.empty() && std::ranges::all_of(active_, [](const auto& f) { return f->finished; });
      if (all) return {};
      changed_.wait_for(lock, kPoll);
    }
    return {};
  }

  // Opens the next file that no other process downloads. The mutex is held.
  std::optional<Job> open_next() {
    for (size_t i = 0; i < waiting_.size();) {
      const FileDownload::Start start = waiting_[i]->start();
      if (start == FileDownload::Start::kLocked) {
        ++i;
        continue;
      }
      active_.push_back(std::move(waiting_[i]));
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
      FileDownload& file = *active_.back();
      if (start == FileDownload::Start::kPresent) {
        file.finished = true;
        done_ += file.file().size;
        continue;
      }
      done_ += file.data().bytes_done();
      ++file.running;
      if (file.todo.empty()) return Job{&file, {}, true};
      Job job{&file, file.todo.front()};
      file.todo.pop_front();
      return job;
    }
    return {};
  }

  void run_job(HubClient& client, const Job& job) {
    FileDownload& file = *job.file;
    if (!job.verify) fetch(client, file, job.range);
    file.hash_arrived(false);  // while this thread counts as running: finish() is for the last one
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      --file.running;
      if (file.whole_only && file.running == 0 && !file.data().is_complete()) {
        done_ -= file.data().bytes_done();
        file.data().forget();
        file.todo.push_back({0, file.file().size});
      }
      last = file.running == 0 && file.todo.empty();
      if (last) ++file.running;  // no other thread may take it for the last one
    }
    if (!last) return;
    const bool finished = file.finish();
    const std::lock_guard lock(mutex_);
    --file.running;
    file.finished = finished;
    if (!finished) done_ -= file.file().size;
    changed_.notify_all();
  }

  // Reads a range, or what the connection's breaks leave of it.
  void fetch(HubClient& client, FileDownload& file, ByteRange range) {
    Backoff backoff(options_.retries);
    while (range.begin < range.end) {
      const uint64_t before = range.begin;
      try {
        read_range(client, file, range);
        if (range.begin < range.end)
          throw HttpError(HttpError::Kind::kBroken, file.file().path + ": the connection ended before the file");
      } catch (const RangeIgnored&) {
        const std::lock_guard lock(mutex_);
        file.whole_only = true;
        file.todo.clear();
        return;
      } catch (const HttpError& error) {
        // Only whole pieces are kept: the next attempt begins where one does.
        const uint64_t kept = std::max(before, range.begin / IncompleteFile::kPieceBytes * IncompleteFile::kPieceBytes);
        done_ -= range.begin - kept;
        range.begin = kept;
        if (kept > before) backoff.reset();
        if (file.whole_only) {
          done_ -= range.begin;
          range.begin = 0;
        }
        backoff.wait(error, stop_);
      }
    }
  }

  // One attempt; range.begin moves as bytes arrive, and pieces that are whole are marked.
  void read_range(HubClient& client, FileDownload& file, ByteRange& range) {
    const uint64_t size = file.file().size;
    HttpRequest request;
    request.stall_seconds = settings_.stall_seconds;
    if (range.begin > 0 || range.end < size) request.range = range;
    bool checked = false;
    const BodySink sink = [&](const HttpResponse& response, std::span<const std::byte> bytes) {
      if (!checked) check_answer(response, file, range, request.range.has_value());
      checked = true;
      if (bytes.size() > range.end - range.begin)
        throw failed("{}: the server sends more than {} bytes", file.file().path, size);
      file.data().write(range.begin, bytes);
      const uint64_t piece = range.begin / IncompleteFile::kPieceBytes * IncompleteFile::kPieceBytes;
      range.begin += bytes.size();
      done_ += bytes.size();
      received_ += bytes.size();
      file.data().mark({piece, range.begin});
    };
    std::string location = file.location();
    const auto keep_location = [&] { file.set_location(location); };
    try {
      client.read(cache_.id(), commit_, file.file(), request, location, sink);
    } catch (...) {
      keep_location();
      throw;
    }
    keep_location();
  }

  static void check_answer(const HttpResponse& response, const FileDownload& file, const ByteRange& range,
                           bool partial) {
    const RepoFile& expected = file.file();
    if (response.status == 200) {
      if (partial) throw RangeIgnored{};
      const std::string length = response.header("content-length");
      if (!length.empty() && length != std::to_string(expected.size))
        throw failed("{}: the server has {} bytes, the Hub's listing says {}", expected.path, length, expected.size);
      return;
    }
    const auto content = parse_content_range(response.header("content-range"));
    if (!content || content->first != range.begin || content->second != expected.size)
      throw failed("{}: the server answers with another range than was asked for", expected.path);
  }

  const Settings& settings_;
  const RepoCache& cache_;
  const std::string& commit_;
  const DownloadOptions& options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<FileDownload>> waiting_, active_;
  int running_ = 0;  // threads that were started, less those that have ended
  std::exception_ptr error_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> done_{0}, received_{0};
  uint64_t total_ = 0;
};

}  // namespace

uint64_t download(const Settings& settings, const RepoCache& cache, const std::string& commit,
                  const std::vector<RepoFile>& files, const DownloadOptions& options) {
  return Downloader(settings, cache, commit, files, options).run();
}

}  // namespace gabbro::hub
