#include "common/error.h"

#include <system_error>

namespace virtrain {

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
      return 2;
    case ErrorCode::bad_input:
    case ErrorCode::not_found:
      return 3;
    case ErrorCode::host_unable:
    case ErrorCode::io:
      return 4;
    case ErrorCode::timeout:
    case ErrorCode::trial_failed:
    case ErrorCode::protocol:
      return 6;
    case ErrorCode::busy:
      return 75;
    case ErrorCode::interrupted:
      return 130;
  }
  return 4;
}

Error errno_error(std::string operation, int errno_value) {
  return Error(std::move(operation), ErrorCode::io, std::generic_category().message(errno_value));
}

}  // namespace virtrain
