#pragma once

#include <string>
#include <vector>

#include "results/store/store.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// One rank in one trial of an experiment over several hosts. Ranks that train together are as fast as the
/// slowest of them; what tells their hosts apart is how fast each computes while it waits for no other.
struct HostReading {
  std::string case_name, arm, host;
  std::int64_t trial = 0;
  double images_per_second = 0;  ///< while it computed: its images by its seconds less the exposed all-reduce
  double waiting = 0;            ///< the share of its time in which it waited for others
};

/// Readings of its usable trials; none of an experiment on one host.
std::vector<HostReading> host_readings(const Store& store, const std::string& experiment);

/// A line for each case, arm and host: the median over trials with its interval over them; as notes the
/// slowest host of each arm, and the range and interval over hosts.
Table hosts_table(const std::vector<HostReading>& readings);
/// The table of `show --hosts`. Error(not_found) if there is no such experiment.
Table hosts_table(const Store& store, const std::string& experiment);

}  // namespace virtrain::results
