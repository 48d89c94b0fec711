#pragma once

#include <string>
#include <vector>

namespace virtrain {

/// The handle of a library that is loaded when it is wanted: by its name as the linker finds it, else from
/// the first of the folders that has it. Throws Error(host_unable) with the places and `advice`.
void* load_library(const std::string& name, const std::vector<std::string>& folders,
                   const std::string& advice);

}  // namespace virtrain
