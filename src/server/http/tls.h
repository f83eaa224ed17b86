// TLS 1.2 and 1.3 over any transport: bytes in, bytes out. OpenSSL is loaded when the first certificate is.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gabbro::server {

// A certificate with its chain, and its private key.
class TlsContext {
 public:
  // Files in PEM. Throws bad_input that names the file, and failed() where this machine has no OpenSSL.
  static std::shared_ptr<const TlsContext> load(const std::string& certificate, const std::string& key);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsSession;
  TlsContext() = default;
  void* context_ = nullptr;  // SSL_CTX
};

// The server's side of one connection. Not thread-safe.
class TlsSession {
 public:
  explicit TlsSession(std::shared_ptr<const TlsContext> context);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Bytes of the client; text that they hold is added to `plain`. False: they are not TLS, or the client ended it.
  bool receive(std::string_view bytes, std::string& plain);
  // Text for the client, after the handshake.
  void send(std::string_view plain);
  void close();  // tells the client that no more text follows
  // Bytes for the client since the last call, also of the handshake.
  std::string take_outgoing();

 private:
  std::shared_ptr<const TlsContext> context_;
  void* session_ = nullptr;  // SSL
  void* input_ = nullptr;    // BIO; both belong to session_
  void* output_ = nullptr;
  bool is_open_ = false;  // after the handshake
};

}  // namespace gabbro::server
