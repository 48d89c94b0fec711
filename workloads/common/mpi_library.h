#pragma once

#include "common/text.h"

#include <mpi.h>

#include <array>
#include <string>

namespace virtrain {

/// The MPI library that runs: "Open MPI 4.1.4". Before MPI_Init, too.
inline std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string name = split(text.data(), ',').front();  // "Open MPI v4.1.4, package: ..."
  if (const std::size_t v = name.find(" v"); v != std::string::npos) name.erase(v + 1, 1);
  return name;
}

}  // namespace virtrain
