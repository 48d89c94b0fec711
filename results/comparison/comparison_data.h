#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/store/records.h"

namespace virtrain::results {

/// One trial, as much of it as a comparison needs.
struct ComparisonRow {
  std::int64_t experiment = 0;  ///< position among the selected experiments
  std::string case_name = {};
  std::string arm = {};
  std::optional<std::int64_t> pair = {};
  std::optional<std::int64_t> order = {};
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 0;
  std::optional<std::int64_t> batch_size = {};
  std::string precision = {};
  std::string backend = {};
  std::string virtualization = {};
  bool oversubscribed = false;
  Status status = Status::finished;
  std::optional<double> images_per_second = {};
  bool valid = true;
};

/// Mean throughput of one tenant over the valid finished trials of a case in an arm.
struct TenantMean {
  std::string case_name = {};
  std::string arm = {};
  std::int64_t tenant_index = 0;
  std::string name = {};
  std::optional<double> images_per_second = {};
};

/// One fact seen in an arm of a case; facts of the host have the prefix "host.".
struct ArmFact {
  std::string case_name = {};
  std::string arm = {};
  std::string key = {};
  std::string value = {};
};

/// All that compare() looks at, in the order the trials were stored.
struct ComparisonData {
  std::vector<ComparisonRow> rows = {};
  std::vector<TenantMean> tenants = {};
  std::vector<ArmFact> facts = {};
};

}  // namespace virtrain::results
