#!/usr/bin/env python3
"""Adds a kind of tokenizer to a copy of the tree as docs/recipes/tokenizer.md says: it touches the files that the recipe
lists and no others, and the tests of tokenizers pass with it.

    tokenizer_recipe_test.py BUILD

BUILD is a build folder with tests. Three files are compiled, and linked with the libraries that are in it.
"""
import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from recipe_files import ROOT, RecipeFiles, insert, recipe  # noqa: E402

HEADER, SOURCE, TABLE = "src/text/models/character_model.h", "src/text/models/character_model.cc", "src/text/models/word_model.cc"
MAKER, FIXTURES = "tests/reference/make_tokenizer_folders.py", "tests/reference/make_tokenizer_folder_fixtures.py"
FIXTURE = "tests/data/text/folders/characters.json"

DECLARATION = """\
// Each character is a token.
#pragma once

#include "src/text/models/word_model.h"

namespace gabbro::text {

// Throws bad_input that names the path.
std::unique_ptr<WordModel> make_character_model(const JsonNode& node);

}  // namespace gabbro::text
"""
MODEL = """\
#include "src/text/models/character_model.h"

#include "src/text/unicode/utf8.h"

namespace gabbro::text {
namespace {

class CharacterModel final : public WordModel {
 public:
  explicit CharacterModel(const JsonNode& node)
      : tokens_(read_token_ids(node.at("vocab"))), unknown_(tokens_.find(node.at("unk_token").string())) {}

  const TokenTable& tokens() const override { return tokens_; }
  std::unique_ptr<ModelMemory> make_memory() const override { return std::make_unique<ModelMemory>(); }
  int32_t unknown() const override { return unknown_; }
  void protect(const std::vector<bool>&) override {}  // one character spells none of them

  void encode(std::string_view word, bool, ModelMemory&, std::vector<int32_t>& out) const override {
    for (size_t at = 0; at < word.size();) {
      const size_t length = utf8_length(word[at]);
      const int32_t token = tokens_.find(word.substr(at, length));
      out.push_back(token >= 0 ? token : unknown_);
      at += length;
    }
  }

 private:
  TokenTable tokens_;
  int32_t unknown_;
};

}  // namespace

std::unique_ptr<WordModel> make_character_model(const JsonNode& node) { return std::make_unique<CharacterModel>(node); }

}  // namespace gabbro::text
"""


def fixture():
    """The fixture's document: letters, and what Python makes of the texts."""
    specials = ["<unk>", "<s>"]
    vocabulary = {text: i for i, text in enumerate([*specials, *(chr(c) for c in range(32, 127)), "é", "ñ", "\ufffd"])}
    added = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, text in enumerate(specials)]
    document = {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                "decoder": {"type": "Fuse"}, "model": {"type": "Characters", "unk_token": "<unk>", "vocab": vocabulary}}
    texts = json.loads((ROOT / "tests/data/text/folders/texts.json").read_text(encoding="utf-8"))
    texts = [bytes.fromhex(text).decode(errors="replace") for text in texts]
    known = [[vocabulary.get(c, 0) for c in text] for text in texts]
    spelled = list(vocabulary)
    return {"files": {"tokenizer.json": json.dumps(document)}, "parses_special": False, "ids": known,
            "texts": ["".join(spelled[i] for i in ids if i > 0) for ids in known], "with_control": []}


class TokenizerRecipe(RecipeFiles, unittest.TestCase):
    page, name, most_files = "docs/recipes/tokenizer.md", "tokenizer", 6

    @classmethod
    def add(cls, tree):
        (tree / HEADER).write_text(DECLARATION, encoding="utf-8")
        (tree / SOURCE).write_text(MODEL, encoding="utf-8")
        insert(tree, TABLE, "#include \"src/text/models/bpe_model.h\"\n", "#include \"src/text/models/character_model.h\"\n")
        insert(tree, TABLE, "constexpr ModelKind kModelKinds[] = {", "\n    {\"Characters\", make_character_model},")
        insert(tree, MAKER, "TOKENIZER_JSON = {\n", "    \"characters\": characters,\n")
        insert(tree, FIXTURES, "\"sp-suffix\"", ", \"characters\"")
        (tree / FIXTURE).write_text(json.dumps(fixture(), ensure_ascii=False) + "\n", encoding="utf-8")
        return [HEADER, SOURCE, TABLE, MAKER, FIXTURES, FIXTURE]

    def test_the_tests_of_tokenizers_take_it(self):
        sources = [SOURCE, TABLE, "src/text/readers/tokenizer_files_test.cc"]
        program = self.folder / "tokenizer_tests"
        self.builds.link("tests/text_test", self.builds.compile(sources, "text_test", precompiled=False), lambda path: False, program)
        output = recipe.run([program, "--gtest_filter=*/characters:*Folder*/word_level"])
        for test in ("GivesTheIdsAndTextsOfTheReference/characters", "NeverMakesControlTokensOfInput/characters",
                     "LongTextsTakeTimeLinearOrAlmostSo/characters", "ThreadsMakeNoDifference/characters"):
            self.assertRegex(output, rf"\[       OK \] .*{test}")
        self.assertNotIn("FAILED", output)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    TokenizerRecipe.build = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
