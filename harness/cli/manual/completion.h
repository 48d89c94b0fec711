#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/cli/manual/verb.h"

namespace virtrain::harness::manual {

/// Ids of experiments or names of schedules.
using Listed = std::function<std::vector<std::string>(Completes)>;

/// The words that complete the last of `words`, the command line behind the program's name: one a line, with
/// a tab and a sentence behind it where there is one. The shell completes by itself after ":files" and
/// ":folders". Only those of `listed` pass that mean nothing to a shell: ids that came with an import may be
/// any text.
std::string completions(const Verb& program, std::vector<std::string> words, const Listed& listed);

/// The shells that there are scripts for.
std::vector<std::string> shells();
/// The script by which one of these shells asks `virtrain complete-word`.
std::string completion(const std::string& shell);
/// The script's path below a folder of all of them: "zsh/_virtrain".
std::string completion_file(const std::string& shell);

}  // namespace virtrain::harness::manual
