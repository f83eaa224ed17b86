#include "src/text/pipeline/pretokenizer_table.h"

namespace gabbro::text {
namespace {

using Steps = std::vector<PreTokenizerStep>;

// Cased letters as DeepSeek LLM lists them.
constexpr const char* kDeepSeekLetters =
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})";

constexpr const char* kHanAndKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kHanAndHangul = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr const char* kBloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr const char* kAsianScripts =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F})"
    R"(\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})"
    R"(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)";
constexpr const char* kYoutuScripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+)"
    R"(|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+)"
    R"(|[\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kLines = R"([^\n]+|\n+)";

// The parts that most patterns are joined from.
const std::string kAnyCaseContraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const std::string kWord = R"([^\r\n\p{L}\p{N}]?\p{L}+)";
const std::string kSigns = R"( ?[^\s\p{L}\p{N}]+)";
const std::string kSpaces = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

// GPT-2. Single spaces before characters of other classes are left over as separate pieces.
std::string gpt2() { return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"; }

// Llama 3 and its like, with the numbers that count as one word.
std::string llama3(const std::string& numbers, const std::string& spaces = kSpaces) {
  return kAnyCaseContraction + "|" + kWord + "|" + numbers + "|" + kSigns + R"([\r\n]*|)" + spaces;
}

// Words that begin again at a capital after a small letter: GPT-4o, Tekken and their like. `upper` and
// `lower` say which characters begin and go on; both hold the letters without case and the marks.
std::string cased_words(const std::string& upper, const std::string& lower, const std::string& suffix) {
  const std::string before = R"([^\r\n\p{L}\p{N}]?)";
  return before + upper + "*" + lower + "+" + suffix + "|" + before + upper + "+" + lower + "*" + suffix;
}

std::string gpt4o(const std::string& suffix, const std::string& numbers) {
  const std::string words = cased_words(R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])", suffix);
  return words + "|" + numbers + "|" + kSigns + R"([\r\n/]*|)" + kSpaces;
}

// Kimi K2 takes the Han script (not its extensions) out of both classes; here they are the complement of everything
// else.
std::string kimi_k2() {
  const std::string words =
      cased_words(R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])",
                  R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}])", kAnyCaseContraction + "?");
  return R"(\p{sc:Han}+|)" + words + R"(|\p{N}{1,3}|)" + kSigns + R"([\r\n]*|)" + kSpaces;
}

// DeepSeek V3 and its like; `signs` says what may follow punctuation and how lines end.
std::string deepseek3(const std::string& signs) {
  return R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)" +
         signs + R"(|\s+(?!\S)|\s+)";
}

// A possessive form of \p{L}\p{M}*(?: \p{L}\p{M}*)*: nothing after it can make it give anything back.
std::string exaone_moe() {
  return kAnyCaseContraction + R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}|)" + kSigns +
         R"([\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)";
}

// Runs of white space are cut into powers of two.
std::string jais2_spaces() {
  std::string out = R"(\s*[\r\n]+)";
  for (int length = 512; length >= 4; length /= 2) out += R"(|\s{)" + std::to_string(length) + R"(}(?!\S))";
  return out + R"(|\s{1,2}(?!\S)|\s{1})";
}

std::vector<PreTokenizerRule> make_rules() {
  const Steps digits_then_gpt2 = {R"(\p{N})", gpt2()};
  const Steps deepseek3_steps = {R"(\p{N}{1,3})", kHanAndKana, deepseek3(R"([\r\n]*|\s*[\r\n]+)")};
  const std::string punctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
  return {
      // An empty name: files from before there were names.
      {.names = {"default", ""}, .steps = {R"([\p{P}\$\+<=>\^~\|]+)", gpt2(), R"(\p{N}+)", "[0-9][0-9][0-9]"}},
      {.names = {"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
                 "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "exaone4", "mpt", "olmo", "jais",
                 "trillion", "granite-docling"},
       .steps = {gpt2()}},
      {.names = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       .steps = digits_then_gpt2},
      {.names = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                 "jina-v5-nano"},
       .steps = {llama3(R"(\p{N}{1,3})")},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .steps = {llama3(R"(\p{N}{1,3})")}},
      {.names = {"glm4", "glm5"}, .steps = {llama3(R"(\p{N}{1,3})")}, .ignore_merges = true},
      {.names = {"minicpm5"}, .steps = {R"(\p{N}{1,3})", llama3(R"(\p{N}+)")}, .ignore_merges = true},
      {.names = {"jais-2"}, .steps = {llama3(R"(\p{N}{1,3})", jais2_spaces())}},
      {.names = {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open",
                 "grok-2"},
       .steps = {llama3(R"(\p{N})")}},
      {.names = {"qwen35"},
       .steps = {kAnyCaseContraction + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" +
                 kSpaces}},
      {.names = {"ufakzeka"}, .steps = {kWord + R"(|\p{N}|)" + kSigns + R"([\r\n]*|)" + kSpaces}},
      {.names = {"laguna"}, .steps = {kLines, llama3(R"(\p{N})")}},
      {.names = {"seed-coder"},
       .steps = {kAnyCaseContraction + "|" + kWord + R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" + kSpaces}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"},
       .steps =
           {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}},
      {.names = {"exaone-moe"}, .steps = {exaone_moe()}},
      {.names = {"tekken"}, .steps = {gpt4o("", R"(\p{N})")}, .ignore_merges = true, .add_bos = true},
      {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"},
       .steps = {gpt4o(kAnyCaseContraction + "?", R"(\p{N}{1,3})")}},
      {.names = {"granite-embed-multi-97m"},
       .steps = {gpt4o(kAnyCaseContraction + "?", R"(\p{N}{1,3})")},
       .ignore_merges = true},
      {.names = {"tiny_aya", "cohere2moe"},
       .steps = {DigitGroups::kWholeDecimals, gpt4o(kAnyCaseContraction + "?", R"(\p{N}{1,3})")}},
      {.names = {"youtu"},
       .steps = {kYoutuScripts, gpt4o(kAnyCaseContraction + "?", R"(\p{N})")},
       .ignore_merges = true},
      {.names = {"kimi-k2"}, .steps = {kimi_k2()}},
      {.names = {"superbpe"}, .steps = {R"(\p{N}+)", DigitGroups::kDecimals}},
      {.names = {"deepseek-llm"},
       .steps = {R"([\r\n])", R"(\s?[)" + std::string(kDeepSeekLetters) + "]+",
                 R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)", R"(\s+\z)",
                 kHanAndHangul, R"(\p{N}+)"}},
      {.names = {"deepseek-coder"}, .steps = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kHanAndHangul, R"(\p{N})"}},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, .steps = deepseek3_steps},
      {.names = {"spark2_5"}, .steps = {R"(\p{N}{1,3})", kHanAndKana, deepseek3(R"(|[\r\n])"), R"(\p{N})"}},
      {.names = {"afmoe"}, .steps = {DigitGroups::kNumbers, kAsianScripts, deepseek3(R"([\r\n]*|\s*[\r\n]+)")}},
      {.names = {"falcon"}, .steps = {punctuation, gpt2(), "[0-9][0-9][0-9]"}},
      {.names = {"poro-chat", "bloom", "gpt3-finnish"}, .steps = {kBloom}},
      {.names = {"viking"}, .steps = {kBloom, R"(\p{N})"}},
      {.names = {"chameleon"},
       .steps = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", R"(\p{N})", R"([\p{P}!-/:-@\[-`{-~])",
                 gpt2()},
       .add_bos = true},
      {.names = {"gemma4", "granite-embed-multi-311m"},
       .steps = {kLines},
       .add_bos = true,
       .byte_level = false,
       .escape_spaces = true,
       .join_newlines = true},
      {.names = {"sarvam-moe"}, .steps = {kLines}, .byte_level = false, .escape_spaces = true},
      {.names = {"whitespace"}, .steps = {R"(\S+)"}, .byte_level = false},
  };
}

}  // namespace

const std::vector<PreTokenizerRule>& pretokenizer_rules() {
  static const std::vector<PreTokenizerRule> rules = make_rules();
  return rules;
}

}  // namespace gabbro::text
