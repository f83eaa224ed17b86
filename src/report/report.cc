#include "src/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "src/base/child_process.h"
#include "src/base/error.h"
#include "src/report/scrubber.h"

namespace gabbro::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr size_t kMostFile = size_t{1} << 20;  // of a file of a part; longer ones are cut
constexpr const char* kTraced[] = {"kernels", "ranges"};

// A folder for the parts' files, removed at the end.
class WorkFolder {
 public:
  WorkFolder() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "gabbro_report_XXXXXX").string();
    if (error || ::mkdtemp(path.data()) == nullptr)
      throw failed("cannot make a folder for temporary files: {}", std::strerror(errno));
    path_ = path;
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// At most kMostFile bytes, up to the end of a line.
std::string read_start(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostFile, '\0');
  file.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() == kMostFile) text.resize(text.rfind('\n') + 1);
  return text;
}

std::vector<ReportFile> files_in(const std::string& folder) {
  std::vector<ReportFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    if (!at->is_regular_file(unknown)) continue;
    files.push_back({fs::relative(at->path(), folder, unknown).string(), read_start(at->path())});
  }
  std::ranges::sort(files, {}, &ReportFile::name);
  return files;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

struct Outcome {
  std::string state;    // "ok", "failed", "crashed", "hung", "skipped", "stopped"
  std::string message;  // one line
  double seconds = 0;
};

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of("\n ");
  if (end == std::string::npos) return {};
  const size_t begin = text.rfind('\n', end) + 1;  // npos + 1 is the start
  return text.substr(begin, std::min<size_t>(end + 1 - begin, 400));
}

Outcome outcome_of(const ChildResult& child, double seconds) {
  const std::string last = last_line(child.output);
  if (!child.started) return {"failed", "cannot start the child process: " + child.ending, seconds};
  if (child.timed_out) return {"hung", fmt::format("no end within {:.0f} s; {}", seconds, last), seconds};
  if (child.succeeded) return {"ok", "", seconds};
  const bool crashed = child.ending.starts_with("signal");
  return {crashed ? "crashed" : "failed", fmt::format("{}; {}", child.ending, last), seconds};
}

class Reporter {
 public:
  explicit Reporter(const ReportOptions& options) : options_(options), scrubber_(Scrubber::of_process(salt())) {
    scrubber_.hide(work_.path(), "<work>");
    if (options.part.model.empty()) return;
    const fs::path model = fs::absolute(options.part.model);
    scrubber_.hide(model.string(), "<model>");
    scrubber_.hide(options.part.model, "<model>");
    scrubber_.hide(model.filename().string(), "<model>");
    scrubber_.hide(model.stem().string(), "<model>");
    scrubber_.hide(model.parent_path().string(), "<folder>");
  }

  std::vector<ReportFile> run() {
    write_archive(options_.path, files());  // a path that cannot be written is known before anything runs
    for (const Part& part : part_table()) {
      if (part.kind == PartKind::kFaults && !options_.faults) continue;
      if (options_.progress) options_.progress(part.name, "", 0);
      const Outcome outcome = run(part);
      parts_.push_back(
          {{"part", part.name}, {"state", outcome.state}, {"message", outcome.message}, {"seconds", outcome.seconds}});
      if (options_.progress) options_.progress(part.name, outcome.state, outcome.seconds);
      write_archive(options_.path, files());
    }
    return files();
  }

 private:
  static uint64_t salt() {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }

  Outcome run(const Part& part) {
    if (stopped()) return {"stopped", "the user has stopped it", 0};
    if (part.kind != PartKind::kMachine && !no_device_.empty()) return {"skipped", no_device_, 0};
    if (part.kind == PartKind::kRocm && !examined_.starts_with("rocm")) return {"skipped", "for AMD GPUs only", 0};
    const double left = options_.seconds - elapsed();
    if (left < 2) return {"skipped", fmt::format("{} s are over", options_.seconds), 0};
    const std::string folder = fmt::format("{}/{}", work_.path(), part.name);
    fs::create_directory(folder);
    const double limit = std::min(part.seconds * options_.seconds / 600.0, left);
    std::vector<std::string> command = options_.command;
    command.insert(command.end(), {part.name, "--folder", folder, "--seconds", fmt::format("{:.0f}", limit)});
    if (!options_.part.device.empty()) command.insert(command.end(), {"--device", options_.part.device});
    if (!options_.part.model.empty()) command.insert(command.end(), {"--model", options_.part.model});
    const bool traced = std::ranges::find(kTraced, std::string_view(part.name)) != std::end(kTraced);
    if (traced) ::setenv("GABBRO_HIP_TRACE", fmt::format("{}/hip_trace_{}.jsonl", folder, part.name).c_str(), 1);
    const double from = elapsed();
    const ChildResult child =
        run_child(command, std::chrono::milliseconds(static_cast<int64_t>(limit * 1000)), options_.stop);
    if (traced) ::unsetenv("GABBRO_HIP_TRACE");
    Outcome outcome = outcome_of(child, elapsed() - from);
    if (stopped()) outcome = {"stopped", "the user has stopped it", outcome.seconds};
    for (ReportFile& file : files_in(folder)) found_.push_back(std::move(file));
    if (!child.output.empty()) found_.push_back({fmt::format("{}.log", part.name), child.output});
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    if (std::string_view(part.name) == "devices") choose_device(outcome);
    return outcome;
  }

  // Parts that need a device are left out where listing the devices has failed, or shows none.
  void choose_device(const Outcome& outcome) {
    if (outcome.state != "ok") {
      no_device_ = fmt::format("listing the devices has {}", outcome.state);
      return;
    }
    for (const ReportFile& file : found_) {
      if (file.name != "devices.jsonl") continue;
      for (size_t at = 0; at < file.content.size();) {
        const size_t end = std::min(file.content.find('\n', at), file.content.size());
        const auto device = ordered_json::parse(file.content.substr(at, end - at), nullptr, false);
        at = end + 1;
        if (!device.is_object() || !device.value("usable", false) || device.value("wave_size", 1) == 1) continue;
        const std::string id = device.value("id", "");
        const bool wanted =
            options_.part.device.empty() ? !id.starts_with("sim") : id.starts_with(options_.part.device);
        if (wanted && examined_.empty()) examined_ = id;
      }
    }
    // A name of another form, such as a PCI address or a target, is left to the parts.
    if (examined_.empty() && options_.part.device.empty()) no_device_ = "there is no usable GPU";
  }

  std::vector<ReportFile> files() const {
    ordered_json manifest = {
        {"schema", kSchema},   {"gabbro", GABBRO_VERSION},  {"date", utc_now()},
        {"device", examined_}, {"faults", options_.faults}, {"model", !options_.part.model.empty()},
        {"parts", parts_}};
    std::vector<ReportFile> all = {
        {"manifest.json", manifest.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"}};
    all.insert(all.end(), found_.begin(), found_.end());
    for (ReportFile& file : all) {
      // Folders have names of ours, or of the system.
      const size_t last = file.name.rfind('/') + 1;  // npos + 1 is the start
      file.name.replace(last, std::string::npos, scrubber_.clean(std::string_view(file.name).substr(last)));
      file.content = scrubber_.clean(file.content);
    }
    return all;
  }

  bool stopped() const { return options_.stop != nullptr && *options_.stop; }

  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  const ReportOptions& options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  WorkFolder work_;
  Scrubber scrubber_;
  ordered_json parts_ = ordered_json::array();
  std::vector<ReportFile> found_;
  std::string examined_;   // "rocm:0"
  std::string no_device_;  // why no device can be examined; empty: one can
};

}  // namespace

std::vector<ReportFile> make_report(const ReportOptions& options) { return Reporter(options).run(); }

void run_part(const std::string& name, const std::string& folder, const PartOptions& options) {
  const Part* const part = find_part(name);
  if (part == nullptr) throw bad_input("there is no part {}", name);
  PartOutput output(folder, name);
  part->run(options, output);
}

}  // namespace gabbro::report
