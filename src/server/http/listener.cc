#include "src/server/http/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"
#include "src/server/http/http_server.h"

namespace gabbro::server {
namespace asio = boost::asio;

namespace {

using local = asio::local::stream_protocol;
using error_code = boost::system::error_code;

constexpr int kFirstInherited = 3;  // SD_LISTEN_FDS_START
constexpr int kMostInherited = 64;

// Whether a process listens on this path.
bool is_in_use(const std::string& path) {
  asio::io_context context;
  local::socket probe(context);
  error_code error;
  probe.connect(local::endpoint(path), error);
  return !error;
}

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int number = -1;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end || number < 0)
    throw bad_input("{} is '{}', expected a number", variable, text);
  return number;
}

}  // namespace

Acceptor listen_on_path(asio::io_context& context, const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path))
    throw bad_input("--socket: a path has 1 to {} bytes", sizeof(sockaddr_un::sun_path) - 1);
  struct stat info = {};
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) throw bad_input("--socket: {} exists and is not a socket", path);
    if (is_in_use(path)) throw bad_input("--socket: a process listens on {}", path);
    ::unlink(path.c_str());
  }
  local::acceptor acceptor(context);
  error_code error;
  acceptor.open(local(), error);
  const mode_t before = ::umask(0117);  // 0660 from the start
  if (!error) acceptor.bind(local::endpoint(path), error);
  ::umask(before);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) throw bad_input("cannot listen on {}: {}", path, error.message());
  return Acceptor(std::move(acceptor));
}

Acceptor acceptor_of(asio::io_context& context, int descriptor) {
  int listens = 0, type = 0;
  socklen_t size = sizeof listens;
  sockaddr_storage address = {};
  socklen_t address_size = sizeof address;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
      ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM ||
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &address_size) != 0)
    throw bad_input("LISTEN_FDS: descriptor {} is not a listening stream socket", descriptor);
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return {context, asio::generic::stream_protocol(address.ss_family, 0), descriptor};
}

bool is_loopback_socket(int descriptor) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (address.ss_family == AF_UNIX) return true;
  if (address.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr) >> 24 == 127;
  return address.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr);
}

std::string peer_of(const Endpoint& endpoint) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (endpoint.data()->sa_family == AF_INET) {
    const auto* const address = reinterpret_cast<const sockaddr_in*>(endpoint.data());
    ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
  } else if (endpoint.data()->sa_family == AF_INET6) {
    const auto* const address = reinterpret_cast<const sockaddr_in6*>(endpoint.data());
    ::inet_ntop(AF_INET6, &address->sin6_addr, text.data(), text.size());
  } else {
    return kUnixPeer;
  }
  return text.data();
}

std::optional<int> port_of(const Endpoint& endpoint) {
  if (endpoint.data()->sa_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in*>(endpoint.data())->sin_port);
  if (endpoint.data()->sa_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(endpoint.data())->sin6_port);
  return std::nullopt;
}

std::string text_of(const Endpoint& endpoint, bool has_tls) {
  const auto port = port_of(endpoint);
  if (!port) {
    const auto* const address = reinterpret_cast<const sockaddr_un*>(endpoint.data());
    return fmt::format("unix:{}", static_cast<const char*>(address->sun_path));
  }
  const std::string peer = peer_of(endpoint);
  return fmt::format("{}://{}:{}", has_tls ? "https" : "http", peer.find(':') != peer.npos ? "[" + peer + "]" : peer,
                     *port);
}

std::vector<int> inherited_sockets() {
  const auto process = number_in("LISTEN_PID"), count = number_in("LISTEN_FDS");
  if (!process || !count || *process != ::getpid()) return {};
  if (*count > kMostInherited) throw bad_input("LISTEN_FDS is {}, expected at most {}", *count, kMostInherited);
  std::vector<int> descriptors;
  for (int i = 0; i < *count; ++i) descriptors.push_back(kFirstInherited + i);
  return descriptors;
}

}  // namespace gabbro::server
