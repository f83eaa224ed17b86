// Pieces of requests' heads: targets, ids.
#pragma once

#include <string>
#include <string_view>

namespace gabbro::server {

// "/v1/models/a%2Fb?x=1" as path "/v1/models/a/b" and query "x=1". Invalid escapes stay unchanged.
void split_target(std::string_view target, std::string& path, std::string& query);

// Whether the id has 1 to 64 characters of [A-Za-z0-9_-], as a client's request id must.
bool is_request_id(std::string_view text);

// `prefix` and 24 random characters of [A-Za-z0-9].
std::string random_id(std::string_view prefix);

}  // namespace gabbro::server
