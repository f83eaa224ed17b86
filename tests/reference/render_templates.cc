// Renders templates for comparison with Jinja2: each line of stdin is {"template", "variables", "now"}, each line of
// stdout {"text"} or {"error"}, with the microseconds that parsing and rendering took. See compare_templates.py.
#include <chrono>
#include <iostream>

#include "src/base/error.h"
#include "src/jinja/from_json.h"
#include "src/jinja/template.h"

int main() {
  using nlohmann::ordered_json;
  using Clock = std::chrono::steady_clock;
  std::string line;
  while (std::getline(std::cin, line)) {
    ordered_json answer;
    const ordered_json request = ordered_json::parse(line);
    const auto begin = Clock::now();
    try {
      const gabbro::text::jinja::Template parsed(request.at("template").get_ref<const std::string&>());
      gabbro::text::jinja::Dict variables;
      for (const auto& [name, value] : request.at("variables").items()) {
        variables.set(name, gabbro::jinja::from_json(value));
      }
      answer["text"] = parsed.render(variables, {.now = request.at("now").get<std::time_t>()}).bytes();
    } catch (const gabbro::Error& error) {
      answer["error"] = error.what();
    }
    answer["us"] = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
    std::cout << answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
  }
}
