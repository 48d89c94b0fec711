#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <mutex>
#include <string>

#include "common/files/unique_fd.h"
#include "vmctl/api/host.h"

namespace virtrain::vmctl {

/// A call's value, and the stream that comes with it.
struct CallResult {
  nlohmann::json value;
  UniqueFd stream;
};

/// Makes the calls of one coordinator, from any thread.
class HostCalls {
 public:
  explicit HostCalls(Host& host) : host_(host) {}

  /// Makes the call of that name, once those of its order have ended. Nothing is done where there is no such
  /// name, or the arguments do not fit: Error(protocol).
  CallResult make(const std::string& call, const nlohmann::json& arguments);

 private:
  Host& host_;
  std::array<std::mutex, 3> turns_;  ///< by CallOrder; nobody waits for that of `none`
};

}  // namespace virtrain::vmctl
