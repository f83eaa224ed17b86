#include "src/hub/digest.h"

#include <openssl/evp.h>

#include "src/base/error.h"
#include "src/hub/shared_library.h"

namespace gabbro::hub {
namespace {

struct Crypto {
  decltype(&EVP_MD_CTX_new) create;
  decltype(&EVP_MD_CTX_free) destroy;
  decltype(&EVP_DigestInit_ex) init;
  decltype(&EVP_DigestUpdate) update;
  decltype(&EVP_DigestFinal_ex) finish;
  decltype(&EVP_sha256) sha256;
  decltype(&EVP_sha1) sha1;
};

const Crypto& crypto() {
  static const Crypto table = [] {
    const SharedLibrary library({"libcrypto.so.3", "libcrypto.so.4", "libcrypto.so.1.1"}, "libssl3");
    Crypto c{};
    library.bind("EVP_MD_CTX_new", c.create);
    library.bind("EVP_MD_CTX_free", c.destroy);
    library.bind("EVP_DigestInit_ex", c.init);
    library.bind("EVP_DigestUpdate", c.update);
    library.bind("EVP_DigestFinal_ex", c.finish);
    library.bind("EVP_sha256", c.sha256);
    library.bind("EVP_sha1", c.sha1);
    return c;
  }();
  return table;
}

void require(int result) {
  if (result != 1) throw failed("libcrypto cannot compute a hash");
}

}  // namespace

struct Digest::Context {
  EVP_MD_CTX* state = crypto().create();
  ~Context() { crypto().destroy(state); }
};

Digest::Digest(Kind kind) : context_(std::make_unique<Context>()) {
  require(crypto().init(context_->state, kind == Kind::kSha256 ? crypto().sha256() : crypto().sha1(), nullptr));
}

Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) {
  require(crypto().update(context_->state, bytes.data(), bytes.size()));
}

std::string Digest::finish() {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require(crypto().finish(context_->state, hash, &size));
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", hash[i]);
  return text;
}

}  // namespace gabbro::hub
