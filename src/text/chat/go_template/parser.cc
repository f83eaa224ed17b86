#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

#include "src/base/error.h"
#include "src/text/chat/go_template/functions.h"
#include "src/text/chat/go_template/lexer.h"
#include "src/text/chat/go_template/node.h"

namespace gabbro::text::go {
namespace {

constexpr int kDeepestNesting = 100;

class Parser {
 public:
  explicit Parser(const std::string& source) : pieces_(split_template(source)) {}

  Tree parse() {
    tree_.root = list(false);
    if (end_ != End::kSource) fail("unexpected {{end}} or {{else}}");
    return std::move(tree_);
  }

 private:
  enum class End { kSource, kEnd, kElse };  // what ended a list

  [[noreturn]] void fail(const std::string& what) const { throw bad_input("template: line {}: {}", line_, what); }

  const Token& token(size_t ahead = 0) const {
    return action_->tokens[std::min(next_ + ahead, action_->tokens.size() - 1)];
  }
  bool is_sign(const char* sign, size_t ahead = 0) const {
    return token(ahead).kind == Token::Kind::kSign && token(ahead).text == sign;
  }
  bool is_end() const { return token().kind == Token::Kind::kEnd; }
  void open(const Piece& piece) {
    action_ = &piece;
    next_ = 0;
    line_ = piece.line;
  }
  void expect_end(const char* where) const {
    if (!is_end()) fail(std::string("unexpected text in ") + where);
  }
  bool take_name(std::string_view name) {
    if (token().kind != Token::Kind::kName || token().text != name) return false;
    ++next_;
    return true;
  }

  // Nodes up to {{end}}, {{else}} or the end of the source. After {{else}} the rest of its action is left to be read.
  Nodes list(bool inside) {
    if (++depth_ > kDeepestNesting) fail("it nests too deeply");
    Nodes nodes;
    end_ = End::kSource;
    while (at_ < pieces_.size()) {
      const Piece& piece = pieces_[at_++];
      if (!piece.is_action) {
        if (!piece.text.empty()) nodes.push_back({.kind = Node::Kind::kText, .text = piece.text});
        continue;
      }
      open(piece);
      if (take_name("end")) {
        expect_end("end");
        end_ = End::kEnd;
        break;
      }
      if (take_name("else")) {
        end_ = End::kElse;
        break;
      }
      if (auto node = statement()) nodes.push_back(std::move(*node));
      end_ = End::kSource;
    }
    if (inside && end_ == End::kSource) fail("a control structure has no {{end}}");
    --depth_;
    return nodes;
  }

  std::optional<Node> statement() {
    for (const auto& [name, kind] :
         {std::pair("if", Node::Kind::kIf), {"with", Node::Kind::kWith}, {"range", Node::Kind::kRange}}) {
      if (take_name(name)) return control(kind);
    }
    for (const auto& [name, kind] : {std::pair("break", Node::Kind::kBreak), {"continue", Node::Kind::kContinue}}) {
      if (!take_name(name)) continue;
      expect_end(name);
      if (ranges_ == 0) fail(std::string("{{") + name + "}} outside of {{range}}");
      return Node{.kind = kind};
    }
    if (take_name("define")) {
      define(string_name());
      return std::nullopt;
    }
    if (take_name("block")) {
      Node node{.kind = Node::Kind::kTemplate, .text = string_name()};
      node.pipe = pipe("block");
      define(node.text);
      return node;
    }
    if (take_name("template")) {
      Node node{.kind = Node::Kind::kTemplate, .text = string_name()};
      if (!is_end()) node.pipe = pipe("template");
      return node;
    }
    if (is_end()) fail("missing value for command");
    Node node{.kind = Node::Kind::kAction};
    node.pipe = pipe("command");
    return node;
  }

  std::string string_name() {
    if (token().kind != Token::Kind::kString) fail("the name of a template is a string");
    return action_->tokens[next_++].text;
  }

  void define(const std::string& name) {
    const std::vector<std::string> outer = std::exchange(variables_, {"$"});
    const int ranges = std::exchange(ranges_, 0);
    tree_.defined[name] = list(true);
    if (end_ != End::kEnd) fail("unexpected {{else}}");
    variables_ = outer;
    ranges_ = ranges;
  }

  Node control(Node::Kind kind) {
    const size_t scope = variables_.size();
    Node node{.kind = kind};
    is_range_ = kind == Node::Kind::kRange;
    node.pipe = pipe("control structure");
    ranges_ += kind == Node::Kind::kRange;
    node.body = list(true);
    ranges_ -= kind == Node::Kind::kRange;
    if (end_ == End::kElse) {
      const bool chained =
          (kind == Node::Kind::kIf && take_name("if")) || (kind == Node::Kind::kWith && take_name("with"));
      if (chained) {
        node.otherwise.push_back(control(kind));  // whose {{end}} ends this one, too
      } else {
        expect_end("else");
        node.otherwise = list(true);
        if (end_ != End::kEnd) fail("expected {{end}}");
      }
    }
    variables_.resize(scope);
    return node;
  }

  std::shared_ptr<const Pipe> pipe(const char* where) {
    auto made = std::make_shared<Pipe>(pipeline(where));
    expect_end(where);
    return made;
  }

  // Declares variables after the pipeline has been read, as Go does not: it may name them at once, which no one writes.
  Pipe pipeline(const char* where) {
    if (++depth_ > kDeepestNesting) fail("it nests too deeply");
    Pipe made;
    const bool is_range = std::exchange(is_range_, false);
    if (token().kind == Token::Kind::kVariable) {
      const bool two = is_range && is_sign(",", 1) && token(2).kind == Token::Kind::kVariable;
      const size_t after = two ? 3 : 1;
      if (is_sign(":=", after) || is_sign("=", after)) {
        made.assigns = is_sign("=", after);
        made.variables.push_back("$" + token().text);
        if (two) made.variables.push_back("$" + token(2).text);
        next_ += after + 1;
        for (const std::string& name : made.variables) made.assigns ? require(name) : variables_.push_back(name);
      }
    }
    do {
      made.commands.push_back(command(where));
    } while (is_sign("|") && ++next_ > 0);
    --depth_;
    return made;
  }

  void require(const std::string& name) const {
    if (std::ranges::find(variables_, name) == variables_.end()) fail("undefined variable " + quote(name));
  }

  Command command(const char* where) {
    Command made;
    while (!is_end() && !is_sign("|") && !is_sign(")")) {
      if (!made.operands.empty() && !token().after_space) fail("operands without space between them");
      made.operands.push_back(operand());
    }
    if (made.operands.empty()) fail(std::string("missing value for ") + where);
    const Operand& first = made.operands.front();
    if (made.operands.size() > 1 && first.kind != Operand::Kind::kFunction)
      fail("arguments after something that is not a function");
    return made;
  }

  Operand operand() {
    Operand made = term();
    const bool takes_fields = made.kind == Operand::Kind::kField || made.kind == Operand::Kind::kVariable ||
                              made.kind == Operand::Kind::kPipe;
    while (token().kind == Token::Kind::kField && !token().after_space) {
      if (!takes_fields) fail("a field of something that has none");
      made.fields.push_back(action_->tokens[next_++].text);
    }
    return made;
  }

  Operand term() {
    const Token& t = action_->tokens[next_];
    switch (t.kind) {
      case Token::Kind::kField:
        ++next_;
        return {.kind = Operand::Kind::kField, .fields = {t.text}};
      case Token::Kind::kVariable:
        ++next_;
        require("$" + t.text);
        return {.kind = Operand::Kind::kVariable, .name = "$" + t.text};
      case Token::Kind::kName:
        ++next_;
        return named(t.text);
      case Token::Kind::kNumber:
        ++next_;
        return {.kind = Operand::Kind::kLiteral, .literal = number(t.text)};
      case Token::Kind::kString:
        ++next_;
        return {.kind = Operand::Kind::kLiteral, .literal = MarkedText(t.text)};
      case Token::Kind::kChar:
        ++next_;
        if (t.text.size() != 1) fail("a character constant that is not supported");
        return {.kind = Operand::Kind::kLiteral,
                .literal = static_cast<int64_t>(static_cast<unsigned char>(t.text[0]))};
      case Token::Kind::kSign:
        if (t.text == ".") {
          ++next_;
          return {.kind = Operand::Kind::kDot};
        }
        if (t.text == "(") {
          ++next_;
          Operand made{.kind = Operand::Kind::kPipe, .pipe = std::make_shared<const Pipe>(pipeline("parenthesis"))};
          if (!is_sign(")")) fail("a parenthesis is not closed");
          ++next_;
          return made;
        }
        break;
      case Token::Kind::kEnd:
        break;
    }
    fail("unexpected " + quote(t.text));
  }

  Operand named(const std::string& name) {
    if (name == "true" || name == "false") return {.kind = Operand::Kind::kLiteral, .literal = Value(name == "true")};
    if (name == "nil") return {.kind = Operand::Kind::kNil};
    if (!is_function(name)) fail("function " + quote(name) + " is not supported");
    return {.kind = Operand::Kind::kFunction, .name = name};
  }

  Value number(const std::string& text) const {
    std::string_view digits = text;
    const bool negative = digits.starts_with('-');
    if (negative || digits.starts_with('+')) digits.remove_prefix(1);
    const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
    int64_t whole = 0;
    const std::string_view body = hex ? digits.substr(2) : digits;
    const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), whole, hex ? 16 : 10);
    if (error == std::errc() && end == body.data() + body.size()) return negative ? -whole : whole;
    double real = 0;
    const auto [stop, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), real);
    if (hex || wrong != std::errc() || stop != digits.data() + digits.size()) fail(quote(text) + " is not a number");
    return negative ? -real : real;
  }

  std::vector<Piece> pieces_;
  Tree tree_;
  size_t at_ = 0, next_ = 0;
  const Piece* action_ = nullptr;
  int line_ = 1, depth_ = 0, ranges_ = 0;
  bool is_range_ = false;  // the next pipeline is that of a range
  End end_ = End::kSource;
  std::vector<std::string> variables_ = {"$"};
};

void collect(const Pipe& pipe, std::set<std::string>& names);

void add_name(std::string name, std::set<std::string>& names) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  names.insert(std::move(name));
}

void collect(const Operand& operand, std::set<std::string>& names) {
  if (operand.kind == Operand::Kind::kVariable) add_name(operand.name, names);
  for (const std::string& field : operand.fields) add_name(field, names);
  if (operand.pipe) collect(*operand.pipe, names);
}

void collect(const Pipe& pipe, std::set<std::string>& names) {
  for (const Command& command : pipe.commands) {
    for (const Operand& operand : command.operands) collect(operand, names);
  }
}

void collect(const Nodes& nodes, std::set<std::string>& names) {
  for (const Node& node : nodes) {
    if (node.pipe) collect(*node.pipe, names);
    collect(node.body, names);
    collect(node.otherwise, names);
  }
}

bool has_field(const Pipe& pipe, const std::string& name) {
  return std::ranges::any_of(pipe.commands, [&](const Command& command) {
    return std::ranges::any_of(command.operands, [&](const Operand& operand) {
      return (operand.kind == Operand::Kind::kField &&
              std::ranges::find(operand.fields, name) != operand.fields.end()) ||
             (operand.pipe && has_field(*operand.pipe, name));
    });
  });
}

// Sets `done` at the field.
Nodes cut(const Nodes& nodes, const std::string& name, bool& done) {
  Nodes out;
  for (const Node& node : nodes) {
    if (done) break;
    Node copy = node;
    if (node.kind == Node::Kind::kAction) {
      done = has_field(*node.pipe, name);
    } else {
      copy.body = cut(node.body, name, done);
      copy.otherwise = done ? Nodes() : cut(node.otherwise, name, done);
    }
    out.push_back(std::move(copy));
  }
  return out;
}

}  // namespace

Tree parse(const std::string& source) { return Parser(source).parse(); }

std::vector<std::string> identifiers(const Tree& tree) {
  std::set<std::string> names;
  collect(tree.root, names);
  for (const auto& [name, nodes] : tree.defined) collect(nodes, names);
  return {names.begin(), names.end()};
}

Nodes cut_after(const Nodes& nodes, const std::string& name) {
  bool done = false;
  return cut(nodes, name, done);
}

}  // namespace gabbro::text::go
