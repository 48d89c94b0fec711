#include <fmt/format.h>

#include "common/text/text.h"
#include "harness/cli/manual/completion.h"

namespace virtrain::harness::manual {
namespace {

std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'') { result += '\\'; }
    result += c;
  }
  return result + "'";
}

constexpr const char* helpers =
    R"(function __virtrain_at --description 'whether the command line has come to this verb'
    set -l verb ''
    for word in (commandline -opc)[2..-1]
        switch "$verb $word"
            case {}
                set verb (string trim -- "$verb $word")
        end
    end
    test "$verb" = "$argv[1]"
end
)";

/// Arguments of `complete` for the value of an option or for a word by itself.
std::string values(const Argument& argument) {
  switch (argument.completes) {
    case Completes::words:
      return " -a " + in_quotes(join(argument.words, " "));
    case Completes::files:
      return " -F";
    case Completes::folders:
      return " -a '(__fish_complete_directories)'";
    case Completes::experiments:
      return " -a " + in_quotes("(" + listing_command("list") + ")");
    case Completes::schedules:
      return " -a " + in_quotes("(" + listing_command("schedule list") + ")");
    case Completes::nothing:
      break;
  }
  return "";
}

std::string option(const Argument& argument, const std::string& where) {
  auto line = "complete -c virtrain" + where;
  for (const auto& name : argument.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!argument.value.empty()) {
    line += argument.completes == Completes::files ? " -r" : " -x";
    line += values(argument);
  }
  return line + " -d " + in_quotes(argument.text) + "\n";
}

}  // namespace

std::string fish_completion(const Verb& program) {
  std::vector<std::string> paths;
  std::string lines;
  for (const auto* verb : all_verbs(program)) {
    const auto path = path_of(*verb);
    const auto where = " -n " + in_quotes("__virtrain_at \"" + path + "\"");
    if (!path.empty()) {
      paths.push_back(in_quotes(path.find(' ') == std::string::npos ? " " + path : path));
    }
    for (const auto& below : verb->verbs) {
      lines +=
          fmt::format("complete -c virtrain{} -a {} -d {}\n", where, word_of(below), in_quotes(below.text));
    }
    for (const auto& argument : verb->options) {
      const bool everywhere = path.empty() && is_taken_below(argument);
      lines += option(argument, everywhere ? "" : where);
    }
    if (!verb->positionals.empty()) {
      const auto offered = values(verb->positionals.front());
      if (!offered.empty()) { lines += fmt::format("complete -c virtrain{}{}\n", where, offered); }
    }
  }
  return "# fish completion of virtrain, made by `virtrain completion fish`\n" +
         fmt::format(fmt::runtime(helpers), join(paths, " ")) + "complete -c virtrain -f\n" + lines;
}

}  // namespace virtrain::harness::manual
