#pragma once

#include <string>

#include "common/files/unique_fd.h"

namespace virtrain {

/// A stream to whoever listens at that path. Throws Error(io) with the operation and errno's words.
UniqueFd connect_to_local_socket(const std::string& path, const std::string& operation);

}  // namespace virtrain
