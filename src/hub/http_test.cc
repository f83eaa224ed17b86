#include "src/hub/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/formats/gguf/gguf_test_support.h"
#include "src/hub/settings.h"

namespace gabbro::hub {
namespace {

TEST(Addresses, HaveAnOrigin) {
  EXPECT_EQ(origin("https://Host.example/a/b?c"), "https://host.example:443");
  EXPECT_EQ(origin("http://127.0.0.1:80"), origin("HTTP://127.0.0.1/x"));
  EXPECT_EQ(origin("https://user:secret@host:8443/x"), "https://host:8443");
  EXPECT_EQ(origin("https://[::1]/x"), "https://[::1]:443");
  EXPECT_NE(origin("https://host"), origin("http://host"));
  EXPECT_NE(origin("https://host.evil"), origin("https://host"));
  EXPECT_NE(origin("https://host?@evil/"), origin("https://evil"));
  EXPECT_EQ(origin("host/x"), "");
  EXPECT_EQ(origin("https:///x"), "");
}

TEST(Addresses, AreJoined) {
  const std::string base = "https://h:1/a/b?q";
  EXPECT_EQ(join_url(base, "https://other/x"), "https://other/x");
  EXPECT_EQ(join_url(base, "//other/x"), "https://other/x");
  EXPECT_EQ(join_url(base, "/x?u=http://y"), "https://h:1/x?u=http://y");
  EXPECT_EQ(join_url(base, "x"), "https://h:1/a/x");
  EXPECT_EQ(join_url("https://h", "x"), "https://h/x");
  EXPECT_EQ(quote_url("a/b c+%\xC3\xA9", true), "a/b%20c%2B%25%C3%A9");
  EXPECT_EQ(quote_url("refs/pr/1", false), "refs%2Fpr%2F1");
}

TEST(Answers, SayWhenToTryAgain) {
  const auto seconds = [](const std::string& header, const std::string& value) {
    return retry_after({.status = 429, .headers = {{header, value}}});
  };
  EXPECT_EQ(seconds("retry-after", "7"), 7);
  EXPECT_EQ(seconds("ratelimit", R"("api";r=0;t=55)"), 55);
  EXPECT_FALSE(seconds("ratelimit", R"("api";r=9;t=55)"));
  EXPECT_FALSE(seconds("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"));
  EXPECT_FALSE(seconds("retry-after", "-1"));
}

class HubSettings : public testing::Test {
 protected:
  HubSettings() {
    for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_TOKEN",
                             "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_OFFLINE",
                             "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_DOWNLOAD_TIMEOUT"})
      unsetenv(name);
    setenv("HOME", home_.path().c_str(), 1);
  }
  ~HubSettings() override { before_.empty() ? unsetenv("HOME") : setenv("HOME", before_.c_str(), 1); }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

  const std::string before_ = variable("HOME");
  gguf::TemporaryFolder home_;
};

TEST_F(HubSettings, TheCacheIsThatOfHuggingFaceHub) {
  EXPECT_EQ(cache_folder(), home_ / ".cache/huggingface/hub");
  set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(cache_folder(), "/xdg/huggingface/hub");
  set("HF_HOME", "~/hf");
  EXPECT_EQ(cache_folder(), home_ / "hf/hub");
  set("HUGGINGFACE_HUB_CACHE", "/old");
  EXPECT_EQ(cache_folder(), "/old");
  set("HF_HUB_CACHE", "$HOME/${HF_HOME}x$NOT_SET_AT_ALL$");
  EXPECT_EQ(cache_folder(), home_ / "~/hfx$NOT_SET_AT_ALL$");
  unsetenv("HF_HUB_CACHE");
  unsetenv("HUGGINGFACE_HUB_CACHE");
  unsetenv("HF_HOME");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(cache_folder(), "");
}

TEST_F(HubSettings, TheTokenIsInAVariableOrAFile) {
  EXPECT_EQ(read_settings().token, "");
  std::filesystem::create_directories(home_ / ".cache/huggingface");
  std::ofstream(home_ / ".cache/huggingface/token") << "of_file\n";
  EXPECT_EQ(read_settings().token, "of_file");
  set("HF_TOKEN", " of_variable\n");
  EXPECT_EQ(read_settings().token, "of_variable");
  EXPECT_EQ(read_settings().token_source, "HF_TOKEN");
  set("HF_TOKEN", "two words");
  EXPECT_THROW(read_settings(), Error);
  set("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_EQ(read_settings().token, "");
}

TEST_F(HubSettings, OtherVariables) {
  const Settings plain = read_settings();
  EXPECT_EQ(plain.endpoint, "https://huggingface.co");
  EXPECT_FALSE(plain.offline);
  EXPECT_EQ(plain.stall_seconds, 30);
  set("HF_ENDPOINT", "http://mirror/hub//");
  set("TRANSFORMERS_OFFLINE", "yes");
  set("HF_HUB_DOWNLOAD_TIMEOUT", "7");
  EXPECT_EQ(read_settings().endpoint, "http://mirror/hub");
  EXPECT_TRUE(read_settings().offline);
  EXPECT_EQ(read_settings().stall_seconds, 7);
  set("HF_HUB_DOWNLOAD_TIMEOUT", "soon");
  EXPECT_THROW(read_settings(), Error);
  unsetenv("HF_HUB_DOWNLOAD_TIMEOUT");
  for (const char* endpoint : {"mirror", "file:///x", "https://a b", "https://a?b"}) {
    set("HF_ENDPOINT", endpoint);
    EXPECT_THROW(read_settings(), Error) << endpoint;
  }
}

}  // namespace
}  // namespace gabbro::hub
