#pragma once

#include <string>
#include <vector>

#include "harness/cli/manual/verb.h"

namespace virtrain::harness::manual {

/// The shells that there are scripts for.
std::vector<std::string> shells();
/// The script by which one of these shells completes command lines of `program`.
std::string completion(const Verb& program, const std::string& shell);
/// The script's path below a folder of all of them: "zsh/_virtrain".
std::string completion_file(const std::string& shell);

/// Parts of completion(), a source each.
std::string bash_completion(const Verb& program);
std::string zsh_completion(const Verb& program);
std::string fish_completion(const Verb& program);

/// Shell command that lists the first column of what `virtrain ARGUMENTS --format csv` prints. Ids that came
/// with an import may be any text: only those pass that mean nothing to a shell.
std::string listing_command(const std::string& arguments);

}  // namespace virtrain::harness::manual
