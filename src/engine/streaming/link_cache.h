// Speeds of links that were measured, in $XDG_CACHE_HOME/gabbro/links, or ~/.cache/gabbro/links.
#pragma once

#include <map>
#include <string>

namespace gabbro::streaming {

// Lines "<link> <bytes per second> <time>"; other lines, and yesterday's, are passed over: disks have busy hours.
class LinkCache {
 public:
  LinkCache();

  template <class Measure>
  double get(const std::string& link, const Measure& measure) {
    const auto known = speeds_.find(link);
    if (known != speeds_.end()) return known->second.speed;
    const double speed = measure();
    speeds_[link] = {speed, now()};
    save();
    return speed;
  }

 private:
  void save() const;

  struct Known {
    double speed, time;  // bytes per second; seconds since 1970
  };
  static double now();

  std::map<std::string, Known> speeds_;
};

}  // namespace gabbro::streaming
