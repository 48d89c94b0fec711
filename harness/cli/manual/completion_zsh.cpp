#include <fmt/format.h>

#include <algorithm>

#include "common/text/text.h"
#include "harness/cli/manual/completion.h"

namespace virtrain::harness::manual {
namespace {

/// Inside '…' of a shell.
std::string in_quotes(const std::string& text) {
  std::string result;
  for (const char c : text) { result += c == '\'' ? "'\\''" : std::string(1, c); }
  return result;
}

/// Inside a specification of _arguments.
std::string in_specification(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '[' || c == ']' || c == ':') { result += '\\'; }
    result += c;
  }
  return in_quotes(result);
}

std::string action(const Argument& argument) {
  switch (argument.completes) {
    case Completes::words:
      return "(" + join(argument.words, " ") + ")";
    case Completes::files:
      return "_files";
    case Completes::folders:
      return "_files -/";
    case Completes::experiments:
      return "_virtrain_experiments";
    case Completes::schedules:
      return "_virtrain_schedules";
    case Completes::nothing:
      break;
  }
  return " ";
}

/// One that may be given again excludes nothing; any other excludes itself under all of its names.
std::string option(const Argument& argument) {
  const auto value = argument.value.empty()
                         ? ""
                         : ":" + in_specification(argument.value) + ":" + in_quotes(action(argument));
  std::string text;
  for (const auto& name : argument.names) {
    const auto equals = argument.value.empty() ? "" : name.starts_with("--") ? "=" : "+";
    text +=
        fmt::format("    '{}{}{}[{}]{}'\n", argument.repeatable ? "*" : "(" + join(argument.names, " ") + ")",
                    name, equals, in_specification(argument.text), value);
  }
  return text;
}

std::string function_name(const Verb& verb) {
  auto name = "_" + verb.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return name;
}

std::string positionals(const Verb& verb) {
  std::string text;
  int place = 0;
  for (const auto& argument : verb.positionals) {
    ++place;
    const auto where = argument.repeatable ? std::string("*:")
                       : argument.required ? fmt::format("{}:", place)
                                           : fmt::format("{}::", place);
    text += fmt::format("    '{}{}:{}'\n", where, in_specification(argument.names.front()),
                        in_quotes(action(argument)));
  }
  return text;
}

std::string function(const Verb& verb, const Verb& program) {
  auto text = function_name(verb) + "() {\n";
  std::string specification;
  for (const auto& argument : verb.options) { specification += option(argument); }
  if (&verb != &program) {
    for (const auto& argument : program.options) {
      if (is_taken_below(argument)) { specification += option(argument); }
    }
  }
  if (verb.verbs.empty()) {
    return text + "  local -a specification=(\n" + specification + positionals(verb) +
           "  )\n  _arguments -s -S : $specification\n}\n";
  }
  text +=
      "  local curcontext=$curcontext state line\n  local -a specification=(\n" + specification +
      "    '1: :->verb'\n    '*:: :->rest'\n  )\n  _arguments -C -s -S : $specification\n  case $state in\n"
      "    verb)\n      local -a verbs=(\n";
  for (const auto& below : verb.verbs) {
    text += fmt::format("        '{}:{}'\n", word_of(below), in_quotes(below.text));
  }
  text +=
      "      )\n      _describe -t commands 'virtrain command' verbs ;;\n    rest)\n      case $line[1] in\n";
  for (const auto& below : verb.verbs) {
    text += fmt::format("        {}) {} ;;\n", word_of(below), function_name(below));
  }
  return text + "      esac ;;\n  esac\n}\n";
}

std::string listing(const std::string& name, const std::string& arguments) {
  return "_virtrain_" + name + "() {\n  local -a found=(${(f)\"$(" + listing_command(arguments) +
         ")\"})\n  compadd -a found\n}\n";
}

}  // namespace

std::string zsh_completion(const Verb& program) {
  std::string text = "#compdef virtrain\n# zsh completion of virtrain, made by `virtrain completion zsh`\n" +
                     listing("experiments", "list") + listing("schedules", "schedule list");
  auto verbs = all_verbs(program);
  std::reverse(verbs.begin(), verbs.end());  // the program's function last
  for (const auto* verb : verbs) { text += function(*verb, program); }
  // Read by `source` it only says whom to ask; as an autoloaded function it is the first call.
  return text +
         "if [[ $funcstack[1] == _virtrain ]]; then\n  _virtrain \"$@\"\nelse\n  compdef _virtrain "
         "virtrain\nfi\n";
}

}  // namespace virtrain::harness::manual
