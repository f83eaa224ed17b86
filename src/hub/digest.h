// SHA-256 and SHA-1 of a stream, by OpenSSL's libcrypto, which is opened at the first use.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace gabbro::hub {

class Digest {
 public:
  enum class Kind { kSha256, kSha1 };
  // Throws failed() with a hint where libcrypto is not installed.
  explicit Digest(Kind kind);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void update(std::span<const std::byte> bytes);
  std::string finish();  // lower-case hexadecimal digits; nothing may follow

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace gabbro::hub
