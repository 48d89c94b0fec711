#pragma once

#include <string>
#include <vector>

namespace virtrain::vmctl {

/// This process's environment with these ("NAME=value") in place of its own. A name given twice means one
/// thing to libc and another to the shell, so what is set is not inherited.
std::vector<std::string> environment_with(std::vector<std::string> set);

/// As execve() and posix_spawn() want arguments and environments; good while the words are.
std::vector<char*> pointers(std::vector<std::string>& words);

}  // namespace virtrain::vmctl
