#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "results/exchange/exporters/exporters.h"

namespace virtrain::results {

/// The page of metrics of these experiments.
inline std::string prometheus(const Store& store, const std::vector<std::string>& experiments) {
  std::ostringstream page;
  export_prometheus(store, experiments, page);
  return page.str();
}

}  // namespace virtrain::results
