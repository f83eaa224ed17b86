#include "src/text/chat/harmony.h"

#include <gtest/gtest.h>

namespace gabbro::text {
namespace {

struct SplitAnswer {
  std::string shown, answer;
  bool operator==(const SplitAnswer&) const = default;
};

// Fed in pieces of `length` bytes.
SplitAnswer split_channels(std::string_view text, size_t length) {
  HarmonyChannels channels;
  std::string shown;
  for (size_t at = 0; at < text.size(); at += length) shown += channels.feed(text.substr(at, length));
  shown += channels.finish();
  return {shown, channels.answer()};
}

void PrintTo(const SplitAnswer& split, std::ostream* out) { *out << split.shown << " / " << split.answer; }

TEST(HarmonyChannels, MarkThoughtsAndKeepTheAnswer) {
  const std::string text =
      "<|channel|>analysis<|message|>Is 1 < 2? <|x|> yes.<|end|><|start|>assistant<|channel|>final<|message|>"
      "Yes: 1 <| 2.<|return|>";
  for (size_t length = 1; length <= text.size(); ++length)
    EXPECT_EQ(split_channels(text, length),
              (SplitAnswer{"[analysis] Is 1 < 2? <|x|> yes.\n\nYes: 1 <| 2.", "Yes: 1 <| 2."}))
        << length;
}

TEST(HarmonyChannels, NameTheChannelWithoutWhatComesAfterIt) {
  EXPECT_EQ(split_channels("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>", 5),
            (SplitAnswer{"[commentary] {}\n\n", ""}));
}

TEST(HarmonyChannels, PassTextWithoutChannelsThrough) {
  for (const std::string text : {"", "<", "Hello <|channel|>analysis<|message|>", "<|chan", "<|im_end|> text", "a<"})
    EXPECT_EQ(split_channels(text, 3), (SplitAnswer{text, text}));
}

TEST(HarmonyChannels, AnAnswerThatIsCutOffIsShownAsFarAsItWent) {
  EXPECT_EQ(split_channels("<|channel|>analysis<|message|>Hm<|en", 4), (SplitAnswer{"[analysis] Hm<|en\n\n", ""}));
  EXPECT_EQ(split_channels("<|channel|>final<|message|>Yes, and <", 4), (SplitAnswer{"Yes, and <", "Yes, and <"}));
  EXPECT_EQ(split_channels("<|channel|>anal", 4), (SplitAnswer{"", ""}));
}

}  // namespace
}  // namespace gabbro::text
