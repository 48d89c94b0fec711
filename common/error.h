#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/enum_text.h"

namespace virtrain {

/// The kind of a failure, which decides the exit code of the command line.
enum class ErrorCode {
  usage,         ///< wrong flags or arguments: exit 2
  bad_input,     ///< a scenario or input file is wrong, nothing was done: exit 3
  host_unable,   ///< this host cannot do it (doctor's words): exit 4
  trial_failed,  ///< a trial ran and failed: exit 6
  busy,          ///< devices, cores or names are taken, try later: exit 75
  timeout,       ///< a deadline passed
  not_found,     ///< the named thing does not exist
  io,            ///< the operating system or a library refused; message carries its words
  protocol,      ///< the peer sent something it may not send
  interrupted,   ///< stopped on request
};
VIRTRAIN_DESCRIBE_ENUM(ErrorCode, usage, bad_input, host_unable, trial_failed, busy, timeout, not_found, io,
                       protocol, interrupted)

/// Exit code of the process for an error that reaches main().
int exit_status(ErrorCode code);

/// The one failure type: what was tried, what kind of failure, and what came back with what to do.
class Error : public std::runtime_error {
 public:
  Error(std::string operation, ErrorCode code, std::string message)
      : std::runtime_error(operation + ": " + message),
        operation_(std::move(operation)),
        code_(code),
        message_(std::move(message)) {}

  const std::string& operation() const { return operation_; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  std::string operation_;
  ErrorCode code_;
  std::string message_;
};

/// Error with code io from errno, as "operation: strerror(errno)".
Error errno_error(std::string operation, int errno_value);

/// Asked by what may take minutes: whether it shall end instead. Empty: never.
using Cancelled = std::function<bool()>;

/// Throws Error(interrupted) if it shall.
inline void end_if(const Cancelled& cancelled, const std::string& operation) {
  if (cancelled && cancelled()) { throw Error(operation, ErrorCode::interrupted, "stopped on request"); }
}

}  // namespace virtrain
