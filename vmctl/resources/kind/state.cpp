#include "vmctl/resources/kind/state.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/json.h"

namespace virtrain::vmctl {

nlohmann::json state_field(const Effect& effect, const char* name) {
  const auto parsed = parse_json_or_null(effect.state);
  if (!parsed.is_object() || !parsed.contains(name)) {
    throw Error("read the lease journal", ErrorCode::io, fmt::format("no {} in {}", name, effect.state));
  }
  return parsed[name];
}

std::string state_text(const Effect& effect, const char* name) {
  return state_field(effect, name).get<std::string>();
}

}  // namespace virtrain::vmctl
