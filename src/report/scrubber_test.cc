#include "src/report/scrubber.h"

#include <gmock/gmock.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace gabbro::report {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Scrubber, HidesNamesAsWholeWords) {
  Scrubber scrubber(1);
  scrubber.hide("ada", "user");
  scrubber.hide("granite", "host");
  scrubber.hide("/data/ada", "~");
  EXPECT_EQ(scrubber.clean("ada granite: adas x=ada,/srv/ada/x"), "user host: adas x=user,/srv/user/x");
  EXPECT_EQ(scrubber.clean("/data/ada/model /data/adam"), "~/model /data/adam");
  EXPECT_EQ(scrubber.clean("granite.example granites"), "host.example granites");
  EXPECT_EQ(scrubber.clean("ada@granite.example"), "<mail>");
  scrubber.hide("", "x");
  EXPECT_EQ(scrubber.clean("text"), "text");
}

TEST(Scrubber, HidesWhatHasAKnownForm) {
  const Scrubber scrubber(1);
  EXPECT_EQ(scrubber.clean("open /home"
                           "/eve/m.gguf: no"),
            "open ~/m.gguf: no");
  EXPECT_EQ(scrubber.clean("PATH=/home"
                           "/eve/bin:/usr/bin"),
            "PATH=~/bin:/usr/bin");
  EXPECT_EQ(scrubber.clean("eth0 12:34:56:78:9a:bc up"), "eth0 <mac> up");
  EXPECT_EQ(scrubber.clean("by eve@mail.example.org."), "by <mail>");
  for (const char* text : {"0000:03:00.0", "gfx90a:sramecc+:xnack-", "6.8.0-45-generic", "00:00:01.5", "~/x"}) {
    EXPECT_EQ(scrubber.clean(text), text);
  }
}

TEST(Scrubber, HashesIdentifiersWithTheSalt) {
  const Scrubber scrubber(1), other(2);
  const std::string text =
      "unique_id 11529215046068469762\nsimd_count 192\nSerial Number: AB-12345\nGPU-1a2b3c4d5e6f7081\n"
      "GPU UUID: GPU-1c2d3e4f-0000-1111-2222-333344445555\nunique_id 0\n";
  const std::string cleaned = scrubber.clean(text);
  for (const char* secret : {"11529215046068469762", "AB-12345", "12345", "1a2b3c4d5e6f7081", "333344445555"}) {
    EXPECT_THAT(cleaned, Not(HasSubstr(secret)));
  }
  EXPECT_THAT(cleaned, HasSubstr("\nsimd_count 192\nSerial Number: "));
  EXPECT_THAT(cleaned, HasSubstr("unique_id 0\n"));
  EXPECT_EQ(cleaned, scrubber.clean(text));
  EXPECT_NE(cleaned, other.clean(text));
  EXPECT_EQ(cleaned.find("unique_id "), 0U);
  EXPECT_NE(std::strtoull(cleaned.c_str() + 10, nullptr, 10), 0U);  // still a number
}

TEST(Scrubber, KnowsThisMachine) {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  const Scrubber scrubber = Scrubber::of_process(3);
  const passwd* entry = ::getpwuid(::getuid());
  ASSERT_NE(entry, nullptr);
  const std::string cleaned = scrubber.clean(std::string(host.data()) + "|" + entry->pw_dir + "/x");
  EXPECT_THAT(cleaned, Not(HasSubstr(host.data())));
  EXPECT_EQ(cleaned.substr(cleaned.find('|')), "|~/x");
}

}  // namespace
}  // namespace gabbro::report
