#pragma once

#include "common/error.h"

#include <string>

namespace virtrain {

/// "virtrain 0.1.0, g++ 12.2.0, Release": for the record "hello".
std::string build_text();
std::string host_name();

/// Our rank as mpirun's environment says it, for errors before MPI runs; 0 for a process that is alone.
int environment_rank();

/// A failure as a line on stderr and as the record "error".
void report_failure(const std::string& executable, const std::string& operation, const std::string& message);
/// Exit status of a workload: 2 for wrong usage, 1 for any other failure.
int usage_or_failure(const Error& error);

}  // namespace virtrain
