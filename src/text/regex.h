// A compiled regular expression over UTF-8 (PCRE2 with its just-in-time compiler), shared by threads.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gabbro::text {

class Regex {
 public:
  // Unicode rules: \d \w and (?i) follow Unicode, \s and \S are the property White_Space. Throws failed() naming the
  // pattern.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;

  // One thread's working memory.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    ~Matcher();
    Matcher(Matcher&&) noexcept;

    // The first match in `subject` (well-formed UTF-8) at or after `start`.
    bool find(std::string_view subject, size_t start);
    size_t begin() const;
    size_t end() const;

   private:
    const Regex* regex_;
    void* data_;
  };

 private:
  std::string pattern_;
  void* code_ = nullptr;
  void* limits_ = nullptr;
  bool jit_ = false;
};

}  // namespace gabbro::text
