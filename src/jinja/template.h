// A parsed Jinja template. Equals Python's Jinja2 with the settings that `transformers` uses for chat templates:
// immutable sandbox, trim_blocks, lstrip_blocks, loop controls, {% generation %}, and its tojson.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>

#include "src/jinja/runtime.h"
#include "src/jinja/value.h"

namespace gabbro::jinja {

struct Tree;

class Template {
 public:
  // Throws bad_input, "template: line 3: ...", for what Jinja does not accept.
  explicit Template(std::string_view source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  struct Options {
    Limits limits;
    std::optional<std::time_t> now;  // the time that strftime_now tells, else the present
  };
  // Throws bad_input as above for what fails while the template runs. May be called from several threads at once.
  MarkedText render(const Dict& variables, const Options& options) const;
  MarkedText render(const Dict& variables) const { return render(variables, Options()); }

 private:
  std::unique_ptr<const Tree> tree_;
};

}  // namespace gabbro::jinja
