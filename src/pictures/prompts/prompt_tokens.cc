#include "src/pictures/prompts/prompt_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "src/base/quote.h"

namespace gabbro::pictures {
namespace {

using Group = std::vector<PromptToken>;  // tokens that belong to a word

Group encode_words(const std::string& text, float weight, const PromptTokenizer& with) {
  Group group;
  for (const int32_t id : with.tokenizer.encode(text, {.add_special = false})) group.push_back({id, weight});
  return group;
}

Group of_embedding(const Embedding& embedding, float weight) {
  Group group;
  for (const std::vector<float>& vector : embedding.vectors) group.push_back({0, weight, &vector});
  return group;
}

PromptChunk closed_chunk(Group tokens, const PromptTokenizer& with) {
  PromptChunk chunk{{with.begin}};
  chunk.insert(chunk.end(), tokens.begin(), tokens.end());
  chunk.push_back({with.end});
  chunk.resize(with.context, {with.padding});
  return chunk;
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' || (c & 0x80) != 0;
}

// The longest known name that `text` begins with as a whole word.
const Embedding* embedding_at(std::string_view text, const Embeddings& embeddings, size_t& length) {
  const Embedding* found = nullptr;
  for (const auto& [name, embedding] : embeddings) {
    const bool fits = text.starts_with(name) && (text.size() == name.size() || !is_name_character(text[name.size()]));
    if (!fits || (found != nullptr && name.size() <= length)) continue;
    found = embedding.get();
    length = name.size();
  }
  return found;
}

// The words of a part in which bare names are embeddings, or (diffusers) names between < and >.
std::vector<Group> groups_of_text(const WeightedText& part, PromptSyntax syntax, const PromptTokenizer& with) {
  std::vector<Group> groups;
  std::string plain;
  const auto flush = [&] {
    if (!plain.empty()) groups.push_back(encode_words(plain, part.weight, with));
    plain.clear();
  };
  const std::string& text = part.text;
  for (size_t i = 0; i < text.size();) {
    size_t length = 0;
    const bool begins = i == 0 || !is_name_character(text[i - 1]);
    const Embedding* found = begins ? embedding_at(std::string_view(text).substr(i), with.embeddings, length) : nullptr;
    if (found == nullptr && syntax == PromptSyntax::kPlain && text[i] == '<') {
      const size_t close = text.find('>', i);
      const auto known =
          close != text.npos ? with.embeddings.find(text.substr(i + 1, close - i - 1)) : with.embeddings.end();
      if (known != with.embeddings.end()) found = known->second.get(), length = close + 1 - i;
    }
    if (found == nullptr) {
      plain += text[i++];
      continue;
    }
    flush();
    groups.push_back(of_embedding(*found, part.weight));
    i += length;
  }
  flush();
  return groups;
}

// ComfyUI: words at spaces, and embedding:NAME.
std::vector<Group> groups_of_words(const WeightedText& part, const PromptTokenizer& with, PromptTokens& result) {
  constexpr std::string_view kPrefix = "embedding:";
  std::vector<Group> groups;
  std::string text = part.text;
  std::ranges::replace(text, '\n', ' ');
  for (size_t first = 0; first < text.size();) {
    const size_t space = std::min(text.find(' ', first), text.size());
    std::string word = text.substr(first, space - first);
    first = space + 1;
    if (word.empty()) continue;
    if (word.starts_with(kPrefix)) {
      std::string name = word.substr(kPrefix.size());
      std::string after;
      while (!name.empty() && name.back() == ',') {
        name.pop_back();
        after += ',';
      }
      const auto known = with.embeddings.find(name);
      if (known != with.embeddings.end()) {
        groups.push_back(of_embedding(*known->second, part.weight));
      } else {
        result.notes.push_back("the prompt names the embedding '" + name + "', which was not given");
      }
      if (after.empty()) continue;
      word = after;
    }
    groups.push_back(encode_words(word, part.weight, with));
  }
  return groups;
}

// ComfyUI: a word is not divided between chunks unless it has 8 tokens.
void chunk_words(const std::vector<Group>& groups, const PromptTokenizer& with, PromptTokens& result) {
  constexpr size_t kLongWord = 8;
  const size_t room = with.context - 2;
  Group open;
  for (const Group& group : groups) {
    for (size_t taken = 0; taken < group.size();) {
      const size_t left = group.size() - taken, free = room - open.size();
      if (left <= free) {
        open.insert(open.end(), group.begin() + static_cast<std::ptrdiff_t>(taken), group.end());
        break;
      }
      if (group.size() >= kLongWord || left > room) {
        const auto from = group.begin() + static_cast<std::ptrdiff_t>(taken);
        open.insert(open.end(), from, from + static_cast<std::ptrdiff_t>(free));
        taken += free;
      }
      result.chunks.push_back(closed_chunk(std::move(open), with));
      open.clear();
    }
  }
  if (!open.empty() || result.chunks.empty()) result.chunks.push_back(closed_chunk(std::move(open), with));
}

// A1111: where a chunk is full, what stands after a comma among its last 20 tokens goes to the next one; the vectors of
// an embedding stay together.
class CommaChunks {
 public:
  CommaChunks(const PromptTokenizer& with, PromptTokens& result) : with_(with), result_(result) {
    const std::vector<int32_t> comma = with.tokenizer.encode(",", {.add_special = false});
    if (comma.size() == 1) comma_ = comma[0];
  }

  void add(const Group& group) {
    const bool together = !group.empty() && group[0].vector != nullptr && group.size() <= room();
    if (together && open_.size() + group.size() > room()) close();
    for (const PromptToken& token : group) {
      if (open_.size() == room()) break_at_comma(token.id != comma_ || token.vector != nullptr);
      open_.push_back(token);
      if (token.id == comma_ && token.vector == nullptr) last_comma_ = open_.size();
    }
  }
  void close() {
    result_.chunks.push_back(closed_chunk(std::move(open_), with_));
    open_.clear();
    last_comma_ = 0;
  }
  void finish() {
    if (!open_.empty() || result_.chunks.empty()) close();
  }

 private:
  size_t room() const { return with_.context - 2; }

  void break_at_comma(bool may_move) {
    constexpr size_t kBack = 20;
    Group moved;
    if (may_move && last_comma_ > 0 && last_comma_ < open_.size() && open_.size() - last_comma_ <= kBack) {
      const auto from = open_.begin() + static_cast<std::ptrdiff_t>(last_comma_);
      moved.assign(from, open_.end());
      open_.erase(from, open_.end());
    }
    close();
    open_ = std::move(moved);
  }

  const PromptTokenizer& with_;
  PromptTokens& result_;
  Group open_;
  size_t last_comma_ = 0;  // tokens up to and with the last comma; 0: none
  int32_t comma_ = -1;
};

// One chunk; the rest is named.
void cut_to_chunk(std::vector<Group> groups, const PromptTokenizer& with, PromptTokens& result) {
  Group all;
  for (Group& group : groups) all.insert(all.end(), group.begin(), group.end());
  const size_t room = with.context - 2;
  if (all.size() > room) {
    std::vector<int32_t> rest;
    for (size_t i = room; i < all.size(); ++i) {
      if (all[i].vector == nullptr) rest.push_back(all[i].id);
    }
    result.dropped = with.tokenizer.decode(rest, {.remove_special = false});
    all.resize(room);
  }
  result.chunks.push_back(closed_chunk(std::move(all), with));
}

}  // namespace

PromptTokens tokenize_prompt(const std::string& whole, PromptSyntax syntax, const PromptTokenizer& with) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::string prompt = whole.starts_with(kByteOrderMark) ? whole.substr(kByteOrderMark.size()) : whole;
  PromptTokens result;
  std::vector<Group> groups;
  CommaChunks chunks(with, result);
  for (const WeightedText& part : parse_prompt(prompt, syntax)) {
    if (part.begins_chunk) chunks.close();
    const std::vector<Group> of_part =
        syntax == PromptSyntax::kComfyUi ? groups_of_words(part, with, result) : groups_of_text(part, syntax, with);
    if (syntax == PromptSyntax::kA1111) {
      for (const Group& group : of_part) chunks.add(group);
    } else {
      groups.insert(groups.end(), of_part.begin(), of_part.end());
    }
  }
  for (const std::string& words : special_words(prompt, syntax))
    result.notes.push_back(fmt::format("A1111 takes {} for more than text, which is not done here", quote(words)));
  if (syntax != PromptSyntax::kA1111 && prompt.find("<lora:") != prompt.npos)
    result.notes.emplace_back("<lora:...> is text in these prompts; --lora adds adapters");
  if (syntax == PromptSyntax::kA1111) chunks.finish();
  if (syntax == PromptSyntax::kComfyUi) chunk_words(groups, with, result);
  if (syntax == PromptSyntax::kPlain) cut_to_chunk(std::move(groups), with, result);
  return result;
}

void pad_chunks(PromptTokens& tokens, size_t count, const PromptTokenizer& with) {
  while (tokens.chunks.size() < count) tokens.chunks.push_back(closed_chunk({}, with));
}

}  // namespace gabbro::pictures
