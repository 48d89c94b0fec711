#include "harness/cli/manual/completion.h"

#include "common/error.h"
#include "common/text/text.h"

namespace virtrain::harness::manual {

namespace {

/// Each shell, what writes its script, and where the shell looks for it.
struct Shell {
  std::string name;
  std::string (*script)(const Verb&);
  std::string file;
};

const std::vector<Shell>& known_shells() {
  static const std::vector<Shell> all{{"bash", bash_completion, "bash/virtrain"},
                                      {"fish", fish_completion, "fish/virtrain.fish"},
                                      {"zsh", zsh_completion, "zsh/_virtrain"}};
  return all;
}

const Shell& shell_of(const std::string& name) {
  for (const auto& shell : known_shells()) {
    if (shell.name == name) { return shell; }
  }
  throw Error("complete for " + name, ErrorCode::usage, "there are scripts for " + join(shells(), ", "));
}

}  // namespace

std::vector<std::string> shells() {
  std::vector<std::string> names;
  for (const auto& shell : known_shells()) { names.push_back(shell.name); }
  return names;
}

std::string completion(const Verb& program, const std::string& shell) {
  return shell_of(shell).script(program);
}

std::string completion_file(const std::string& shell) {
  return shell_of(shell).file;
}

std::string listing_command(const std::string& arguments) {
  return "virtrain " + arguments +
         " --format csv 2>/dev/null | sed -n '1d; s/^\\([A-Za-z0-9][A-Za-z0-9._-]*\\),.*/\\1/p'";
}

}  // namespace virtrain::harness::manual
