#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "common/files/unique_fd.h"
#include "vmctl/api/host.h"

namespace virtrain::vmctl {

/// A call's value, and the stream that comes with it.
struct CallResult {
  nlohmann::json value;
  UniqueFd stream;
};

/// Makes the call of that name. Nothing is done where it has no such name, or its arguments do not fit:
/// Error(protocol).
CallResult make_call(Host& host, const std::string& call, const nlohmann::json& arguments);

}  // namespace virtrain::vmctl
