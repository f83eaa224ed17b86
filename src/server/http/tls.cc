#include "src/server/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <climits>

#include "src/base/error.h"
#include "src/hub/shared_library.h"

namespace gabbro::server {
namespace {

struct OpenSsl {
  decltype(&TLS_server_method) server_method;
  decltype(&SSL_CTX_new) context_new;
  decltype(&SSL_CTX_free) context_free;
  decltype(&SSL_CTX_ctrl) context_control;
  decltype(&SSL_CTX_use_certificate_chain_file) use_certificate;
  decltype(&SSL_CTX_use_PrivateKey_file) use_key;
  decltype(&SSL_CTX_check_private_key) check_key;
  decltype(&SSL_CTX_set_alpn_select_cb) set_alpn;
  decltype(&SSL_select_next_proto) select_protocol;
  decltype(&SSL_new) session_new;
  decltype(&SSL_free) session_free;
  decltype(&SSL_set_bio) set_bio;
  decltype(&SSL_set_accept_state) set_accept_state;
  decltype(&SSL_do_handshake) handshake;
  decltype(&SSL_read) read;
  decltype(&SSL_write) write;
  decltype(&SSL_get_error) get_error;
  decltype(&SSL_shutdown) shutdown;
  decltype(&BIO_new) bio_new;
  decltype(&BIO_s_mem) memory;
  decltype(&BIO_read) bio_read;
  decltype(&BIO_write) bio_write;
  decltype(&ERR_get_error) next_error;
  decltype(&ERR_error_string_n) error_text;
};

const OpenSsl& openssl() {
  static const OpenSsl table = [] {
    const hub::SharedLibrary library({"libssl.so.3", "libssl.so.4", "libssl.so.1.1"}, "libssl3");
    OpenSsl s{};
    library.bind("TLS_server_method", s.server_method);
    library.bind("SSL_CTX_new", s.context_new);
    library.bind("SSL_CTX_free", s.context_free);
    library.bind("SSL_CTX_ctrl", s.context_control);
    library.bind("SSL_CTX_use_certificate_chain_file", s.use_certificate);
    library.bind("SSL_CTX_use_PrivateKey_file", s.use_key);
    library.bind("SSL_CTX_check_private_key", s.check_key);
    library.bind("SSL_CTX_set_alpn_select_cb", s.set_alpn);
    library.bind("SSL_select_next_proto", s.select_protocol);
    library.bind("SSL_new", s.session_new);
    library.bind("SSL_free", s.session_free);
    library.bind("SSL_set_bio", s.set_bio);
    library.bind("SSL_set_accept_state", s.set_accept_state);
    library.bind("SSL_do_handshake", s.handshake);
    library.bind("SSL_read", s.read);
    library.bind("SSL_write", s.write);
    library.bind("SSL_get_error", s.get_error);
    library.bind("SSL_shutdown", s.shutdown);
    library.bind("BIO_new", s.bio_new);
    library.bind("BIO_s_mem", s.memory);
    library.bind("BIO_read", s.bio_read);
    library.bind("BIO_write", s.bio_write);
    library.bind("ERR_get_error", s.next_error);
    library.bind("ERR_error_string_n", s.error_text);
    return s;
  }();
  return table;
}

SSL_CTX* as_context(void* context) { return static_cast<SSL_CTX*>(context); }
SSL* as_session(void* session) { return static_cast<SSL*>(session); }
BIO* as_bio(void* bio) { return static_cast<BIO*>(bio); }

// The first one that OpenSSL noted in this thread; the others are dropped.
std::string take_error() {
  std::array<char, 256> text{};
  const unsigned long first = openssl().next_error();  // NOLINT(google-runtime-int): OpenSSL's type
  while (openssl().next_error() != 0) {
  }
  if (first == 0) return "unknown error";
  openssl().error_text(first, text.data(), text.size());
  return text.data();
}

int select_http(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned in_size,
                void*) {
  static constexpr std::array<unsigned char, 9> kHttp = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  const int found = openssl().select_protocol(&chosen, out_size, kHttp.data(), kHttp.size(), in, in_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

std::shared_ptr<const TlsContext> TlsContext::load(const std::string& certificate, const std::string& key) {
  const OpenSsl& ssl = openssl();
  const std::shared_ptr<TlsContext> made(new TlsContext);
  made->context_ = ssl.context_new(ssl.server_method());
  SSL_CTX* const context = as_context(made->context_);
  if (context == nullptr) throw failed("OpenSSL: {}", take_error());
  ssl.context_control(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr);
  ssl.set_alpn(context, select_http, nullptr);
  if (ssl.use_certificate(context, certificate.c_str()) != 1)
    throw bad_input("{}: cannot be used as a certificate: {}", certificate, take_error());
  // OpenSSL compares the key with the certificate here already, with an error that names neither.
  if (ssl.use_key(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const std::string error = take_error();
    if (error.find("key values mismatch") == error.npos)
      throw bad_input("{}: cannot be used as a private key: {}", key, error);
    throw bad_input("{}: the key does not belong to the certificate {}", key, certificate);
  }
  if (ssl.check_key(context) != 1)
    throw bad_input("{}: the key does not belong to the certificate {}", key, certificate);
  return made;
}

TlsContext::~TlsContext() {
  if (context_ != nullptr) openssl().context_free(as_context(context_));
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context) : context_(std::move(context)) {
  const OpenSsl& ssl = openssl();
  SSL* const session = ssl.session_new(as_context(context_->context_));
  BIO *const input = ssl.bio_new(ssl.memory()), *const output = ssl.bio_new(ssl.memory());
  if (session == nullptr || input == nullptr || output == nullptr) throw failed("OpenSSL: {}", take_error());
  ssl.set_bio(session, input, output);
  ssl.set_accept_state(session);
  session_ = session;
  input_ = input;
  output_ = output;
}

TlsSession::~TlsSession() { openssl().session_free(as_session(session_)); }

bool TlsSession::receive(std::string_view bytes, std::string& plain) {
  const OpenSsl& ssl = openssl();
  SSL* const session = as_session(session_);
  const auto waits = [&](int result) {
    const int error = ssl.get_error(session, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return true;
    take_error();
    return false;
  };
  while (!bytes.empty()) {
    const int given =
        ssl.bio_write(as_bio(input_), bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX)));
    if (given <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(given));
  }
  if (!is_open_) {
    const int result = ssl.handshake(session);
    if (result != 1) return waits(result);
    is_open_ = true;
  }
  std::array<char, 16 << 10> buffer;
  for (;;) {
    const int got = ssl.read(session, buffer.data(), static_cast<int>(buffer.size()));
    if (got <= 0) return waits(got);
    plain.append(buffer.data(), static_cast<size_t>(got));
  }
}

void TlsSession::send(std::string_view plain) {
  while (is_open_ && !plain.empty()) {
    const int taken =
        openssl().write(as_session(session_), plain.data(), static_cast<int>(std::min<size_t>(plain.size(), INT_MAX)));
    if (taken <= 0) return;  // the session failed, and receive() says so
    plain.remove_prefix(static_cast<size_t>(taken));
  }
}

void TlsSession::close() {
  if (is_open_) openssl().shutdown(as_session(session_));
}

std::string TlsSession::take_outgoing() {
  std::string out;
  std::array<char, 16 << 10> buffer;
  for (;;) {
    const int got = openssl().bio_read(as_bio(output_), buffer.data(), static_cast<int>(buffer.size()));
    if (got <= 0) return out;
    out.append(buffer.data(), static_cast<size_t>(got));
  }
}

}  // namespace gabbro::server
