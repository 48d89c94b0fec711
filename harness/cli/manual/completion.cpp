#include "harness/cli/manual/completion.h"

#include "common/error.h"

namespace virtrain::harness::manual {

const std::vector<std::string>& shells() {
  static const std::vector<std::string> names{"bash", "fish", "zsh"};
  return names;
}

std::string completion(const Verb& program, const std::string& shell) {
  if (shell == "bash") { return bash_completion(program); }
  if (shell == "fish") { return fish_completion(program); }
  if (shell == "zsh") { return zsh_completion(program); }
  throw Error("complete for " + shell, ErrorCode::usage, "there are scripts for bash, fish and zsh");
}

std::string listing_command(const std::string& arguments) {
  return "virtrain " + arguments +
         " --format csv 2>/dev/null | sed -n '1d; s/^\\([A-Za-z0-9][A-Za-z0-9._-]*\\),.*/\\1/p'";
}

}  // namespace virtrain::harness::manual
