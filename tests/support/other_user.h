#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace virtrain::test {

inline constexpr uid_t stranger = 65534;

/// Runs the body in a child that is another user, without any of root's rights; what it returns. Root only.
inline bool as_stranger(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresgid(stranger, stranger, stranger) != 0 || ::setresuid(stranger, stranger, stranger) != 0) {
      ::_exit(2);
    }
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace virtrain::test
