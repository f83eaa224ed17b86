#include "src/jinja/template.h"

#include "src/jinja/interpreter.h"
#include "src/jinja/parser.h"

namespace gabbro::jinja {

struct Tree {
  Body body;
};

Template::Template(std::string_view source) : tree_(std::make_unique<const Tree>(Tree{Parser(source).parse()})) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

MarkedText Template::render(const Dict& variables, const Options& options) const {
  return Interpreter(variables, options.limits, options.now).render(tree_->body);
}

}  // namespace gabbro::jinja
