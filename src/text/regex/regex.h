// A compiled regular expression over UTF-8, shared by threads: matched by table where it is simple enough
// (simple_pattern.h), else by PCRE2 with its just-in-time compiler.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/text/regex/simple_pattern.h"

namespace gabbro::text {

class Regex {
 public:
  // A pattern of ours. Unicode rules: \d \w and (?i) follow Unicode, \s and \S are the property White_Space. Throws
  // failed() naming the pattern.
  explicit Regex(const std::string& pattern);

  // A pattern of a file, in Oniguruma's syntax for Ruby (oniguruma.h). Its matches may take a bounded number of steps.
  // Throws bad_input that names `where` and the pattern.
  static Regex from_file(std::string_view pattern, const std::string& where);

  ~Regex();
  Regex(Regex&&) noexcept;

  bool is_simple() const { return simple_.has_value(); }

  // One thread's working memory.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    ~Matcher();
    Matcher(Matcher&&) noexcept;

    // The first match in `subject` (well-formed UTF-8) at or after `start`. Throws bad_input where the pattern of a
    // file exceeds its steps, or the time that a text of this length may take.
    bool find(std::string_view subject, size_t start);
    size_t begin() const { return match_.begin; }
    size_t end() const { return match_.end; }

   private:
    void check_time(size_t subject_bytes);
    bool find_by_pcre(std::string_view subject, size_t start);

    const Regex* regex_;
    void* data_ = nullptr;  // of PCRE2, once it is needed
    SimplePattern::Match match_;
    uint32_t calls_ = 0;
    std::chrono::steady_clock::time_point started_;
  };

 private:
  Regex() = default;
  void compile(const std::string& spelled, uint32_t options, bool trusted);

  std::string pattern_;
  std::string where_;  // empty: a pattern of ours
  void* code_ = nullptr;
  void* limits_ = nullptr;
  bool jit_ = false;
  std::optional<SimplePattern> simple_;
};

}  // namespace gabbro::text
