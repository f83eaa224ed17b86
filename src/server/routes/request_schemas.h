// JSON schemas of request bodies, for /openapi.json.
#pragma once

#include <string_view>

#include "src/server/api_error.h"

namespace gabbro::server {

// The schemas by name, for "components".
const Json& request_schemas();

// {"$ref": "#/components/schemas/..."} of the bodies that a route takes; any object where none is described.
Json request_schema_of(std::string_view path);

}  // namespace gabbro::server
