// Routes of the dialects that this server does not have: 501 tells clients that the route is known.
#include <fmt/format.h>

#include "src/server/router.h"

namespace gabbro::server {
namespace {

void refuse_route(Service&, const std::shared_ptr<Exchange>& exchange) {
  throw ApiError(501, fmt::format("{} is not supported by this server", exchange->request().path), "not_supported");
}

}  // namespace

void add_refused(Router& router) {
  for (const char* const path : {"/v1/images/generations", "/v1/audio/speech", "/v1/audio/transcriptions",
                                 "/v1/moderations", "/api/create", "/api/copy", "/api/push", "/api/pull"})
    router.add({"POST", path, kNotServed, refuse_route});
  router.add({"DELETE", "/api/delete", kNotServed, refuse_route});
  router.add({"GET", "/slots", kNotServed, refuse_route});
}

}  // namespace gabbro::server
