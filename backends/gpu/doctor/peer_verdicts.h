// Verdicts on direct copies between two devices that came out damaged, kept per driver version in the file of
// measurements: damage that shows once in a thousand copies holds for later processes too.
#pragma once

#include <cstdint>
#include <string>

namespace gabbro::gpu {

class PeerVerdict {
 public:
  PeerVerdict(int32_t to, int32_t from);

  // Whether GABBRO_PEER_VERDICTS=renew asks for new and longer tests, as `gabbro doctor --peers` does.
  static bool are_renewed();

  // The damage that was found, in one line; empty: none is kept, or they are renewed.
  std::string damage() const;
  // Keeps the damage. Empty: the copies came out right, which replaces a kept verdict if it is renewed.
  void keep(const std::string& damage) const;

 private:
  std::string devices_, copies_;  // the keys in the file
};

}  // namespace gabbro::gpu
