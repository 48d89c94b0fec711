#pragma once

#include <iosfwd>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace virtrain::results {

using PrometheusLabels = std::vector<std::pair<std::string, std::string>>;

/// A page of Prometheus's text format: the samples of a metric stand together behind its HELP and TYPE.
class PrometheusPage {
 public:
  void add(const std::string& metric, const char* type, const char* help, const PrometheusLabels& labels,
           double value);
  void write(std::ostream& out) const;

 private:
  struct Family {
    std::string type = {};
    std::string help = {};
    std::string samples = {};
    std::set<std::string> seen = {};
  };

  std::map<std::string, Family> families_;
};

}  // namespace virtrain::results
