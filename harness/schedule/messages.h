#pragma once

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <vector>

#include "results/changes/changes.h"

namespace virtrain::harness {

/// A message that somebody gets once.
struct Message {
  std::string key;  ///< "1f3a90c2 confirmed large": the same each time
  nlohmann::json body;
  std::vector<std::string> takes_back = {};  ///< keys of what was told and is no longer so
};

/// One message for each open change, one more where it has become large since, and one for each that was told
/// and is mended or superseded, without those already told. `mark` ends the keys of what is told in another
/// way than by command.
std::vector<Message> messages_of(const std::string& schedule, const std::vector<results::Change>& changes,
                                 const std::set<std::string>& told, const std::string& mark = "");

}  // namespace virtrain::harness
