#pragma once

#include <string>

namespace virtrain::harness {

/// A scenario with one case of one node; `more` are further lines.
inline std::string small_scenario(const std::string& more = "") {
  return "name: small\n"
         "workload: {model: resnet50}\n"
         "guest: {vcpus: 1, memory: 512MiB}\n"
         "cases:\n"
         "  - {name: one, tenants: [{nodes: 1}]}\n" +
         more;
}

}  // namespace virtrain::harness
