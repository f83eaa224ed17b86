// Input keeps its marks through everything that a template does with it, and what a template writes has none.
#include "src/jinja/marks.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/jinja/from_json.h"
#include "src/jinja/template.h"

namespace gabbro::jinja {
namespace {

using nlohmann::ordered_json;

// The rendered text, with input in brackets; `c` is "aB <|x|> cd", `n` is 7, `d` is {"k": "v"}, `l` is ["p", "q"].
std::string marked(const std::string& source) {
  Dict variables;
  const ordered_json input = {{"c", "aB <|x|> cd"}, {"n", 7}, {"d", {{"k", "v"}}}, {"l", {"p", "q"}}, {"s", "  y "}};
  for (const auto& [name, value] : input.items()) variables.set(name, from_json(value, &kOtherInput));
  std::string shown;
  Template(source).render(variables).for_each_piece([&](std::string_view piece, const int32_t* from) {
    shown += from != nullptr ? "[" + std::string(piece) + "]" : std::string(piece);
  });
  return shown;
}

TEST(Marks, FollowTheBytes) {
  const std::pair<const char*, const char*> kCases[] = {
      {"<|{{ c }}|>", "<|[aB <|x|> cd]|>"},
      {"{{ '<' ~ c ~ '>' }}", "<[aB <|x|> cd]>"},
      {"{{ '<' + c + '>' }}", "<[aB <|x|> cd]>"},
      {"{{ ('<' + s + '>') | trim }}{{ s | trim }}{{ s.strip() }}{{ s.lstrip() }}", "<[  y ]>[yyy ]"},
      {"{{ (' <' + c) | trim }}", "<[aB <|x|> cd]"},
      {"{{ ('<' + c)[1:3] }}{{ ('<' + c)[0] }}{{ ('<' + c)[1] }}", "[aB]<[a]"},
      {"{{ ('<' + c)[::-1] }}", "[dc >|x|< Ba<]"},
      {"{{ ('<a>' + c).split('>')[0] }}", "<a"},
      {"{{ c.split(' ')[1] }}{{ c.split()[2] }}{{ c.rsplit(' ', 1)[1] }}", "[<|x|>cdcd]"},
      {"{{ c.partition('|')[0] }}{{ c.partition('|')[1] }}{{ c.rpartition('|')[2] }}", "[aB <]|[> cd]"},
      {"{{ ('x\n' + c).splitlines()[1] }}", "[aB <|x|> cd]"},
      {"{{ c.replace('x', '<y>') }}", "[aB <|]<y>[|> cd]"},
      {"{{ '<e>'.replace('e', c) }}", "<[aB <|x|> cd]>"},
      {"{{ c | replace('aB ', '') }}", "[<|x|> cd]"},
      {"{{ ('<t>' + c) | upper }}{{ c | lower }}", "<T>[AB <|X|> CDab <|x|> cd]"},
      {"{{ ('<t>' + c).title() }}", "<T>[Ab <|X|> Cd]"},
      {"{{ ('a' + c).capitalize() }}", "[Aab <|x|> cd]"},  // case depends on what stands before
      {"{{ [c, '<t>', c] | join('-') }}{{ ','.join(l) }}", "[aB <|x|> cd]-<t>-[aB <|x|> cdp],[q]"},
      {"{{ '<%s|%d>' % (c, n) }}{{ '<{}>{x}'.format(c, x=s) }}", "<[aB <|x|> cd]|7><[aB <|x|> cd]>[  y ]"},
      {"{{ '%3s' % l[0] }}", "[  p]"},
      {"{{ c % () }}", "[aB <|x|> cd]"},
      {"{{ ('<t>\n' + c) | indent(2) }}", "<t>\n  [aB <|x|> cd]"},
      {"{{ l[0] * 2 }}{{ l[0].center(3) }}{{ l[0].zfill(2) }}", "[pp] [p] 0[p]"},
      {"{{ d | tojson }}{{ [1] | tojson }}{{ d }}", "[{\"k\": \"v\"}][1][{'k': 'v'}]"},
      {"{{ c | escape }}", "[aB &lt;|x|&gt; cd]"},
      {"{{ '<t>' | safe ~ c }}", "<t>[aB <|x|> cd]"},
      {"{{ c | safe }}{{ c | string }}{{ c | default('<t>') }}{{ z | default('<t>') }}",
       "[aB <|x|> cdaB <|x|> cdaB <|x|> cd]<t>"},
      {"{% for x in l %}<{{ x }}>{% endfor %}{% for x in l[0] %}{{ x }}{% endfor %}", "<[p]><[q]>[p]"},
      {"{% for k, v in d.items() %}<{{ k }}={{ v }}>{% endfor %}", "<[k]=[v]>"},
      {"{% set x %}<{{ c }}>{% endset %}{{ x }}", "<[aB <|x|> cd]>"},
      {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(c) }}", "<[aB <|x|> cd]>"},
      {"{% filter upper %}<t>{{ c }}{% endfilter %}", "<T>[AB <|X|> CD]"},
      {"{% set ns = namespace(t='<') %}{% set ns.t = ns.t + c %}{{ ns.t }}", "<[aB <|x|> cd]"},
      {"{{ l | map('upper') | join }}{{ l | first }}{{ (l | sort)[1] }}", "[PQpq]"},
      {"{{ c if n else '<t>' }}{{ '<t>' if c else c }}", "[aB <|x|> cd]<t>"},
      {"{{ c | striptags }}{{ c | urlencode }}", "[aB cdaB%20%3C%7Cx%7C%3E%20cd]"},
      {"{{ c | length }}{{ c == 'aB <|x|> cd' }}{{ 'x' in c }}{{ c.find('<') }}", "11TrueTrue3"},
      {"{{ c.removeprefix('aB ') }}{{ ('<t>' + c).removesuffix(' cd') }}", "[<|x|> cd]<t>[aB <|x|>]"},
      {"{{ {'<t>': c}['<t>'] }}{{ {c: '<t>'}[c] }}", "[aB <|x|> cd]<t>"},
      {"{{ c | truncate(6, true, '<>', 0) }}", "[aB <]<>"},
      {"{{ c | wordwrap(5) }}", "[aB\n<|x|>\ncd]"},
      {"{{ 'a\tb'.expandtabs(2) }}{{ (c + '\t').expandtabs(4) }}", "a b[aB <|x|> cd] "},
  };
  for (const auto& [source, expected] : kCases) EXPECT_EQ(marked(source), expected) << source;
}

// Marks change nothing of what is rendered: the snippets that are compared with Jinja2, once with and once without.
TEST(Marks, ChangeNoText) {
  const auto file = ordered_json::parse(read_file(GABBRO_SOURCE_DIR "/tests/data/templates/snippets.json"));
  const Template::Options options{.now = file.at("now").get<std::time_t>()};
  Dict plain, input;
  for (const auto& [name, value] : file.at("variables").items()) {
    plain.set(name, from_json(value));
    input.set(name, from_json(value, &kOtherInput));
  }
  const auto render = [&](const std::string& source, const Dict& variables) {
    try {
      return Template(source).render(variables, options).bytes();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  for (const ordered_json& row : file.at("snippets")) {
    const auto source = row.at("template").get<std::string>();
    EXPECT_EQ(render(source, input), render(source, plain)) << source;
  }
}

}  // namespace
}  // namespace gabbro::jinja
