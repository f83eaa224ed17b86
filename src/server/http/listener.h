// Sockets that listen: on a path, or handed over by systemd. Private to src/server/http.
#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>

namespace gabbro::server {

using Acceptor = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;
using Endpoint = boost::asio::generic::stream_protocol::endpoint;

inline constexpr const char* kUnixPeer = "unix";  // in place of a client's address

// Mode 0660. A socket that no process listens on any more is replaced. Throws bad_input for a path that cannot be.
Acceptor listen_on_path(boost::asio::io_context& context, const std::string& path);
// Throws bad_input for a descriptor that is not a listening stream socket.
Acceptor acceptor_of(boost::asio::io_context& context, int descriptor);

std::string text_of(const Endpoint& endpoint, bool has_tls);  // "http://127.0.0.1:80", "unix:/run/socket"
std::string peer_of(const Endpoint& endpoint);                // "127.0.0.1", kUnixPeer
std::optional<int> port_of(const Endpoint& endpoint);         // nothing: it is a path

}  // namespace gabbro::server
