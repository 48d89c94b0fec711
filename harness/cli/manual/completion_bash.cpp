#include <fmt/format.h>

#include "common/text/text.h"
#include "harness/cli/manual/completion.h"

namespace virtrain::harness::manual {
namespace {

/// Words of the program and of each verb end up in `case`: they are letters and dashes, and need no quotes.
constexpr const char* helpers = R"(_virtrain_words() {
    local word
    for word; do
        if [[ $word == "$current"* ]]; then COMPREPLY+=("$word"); fi
    done
}
_virtrain_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
}
_virtrain_folders() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -d -- "$current")
}
)";

constexpr const char* beginning = R"(_virtrain() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} verb='' i
    COMPREPLY=()
    # --format=json is three words.
    if [[ $current == = ]]; then
        current=''
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; ++i)); do
        case "$verb ${COMP_WORDS[i]}" in
)";

std::string action(const Argument& argument) {
  switch (argument.completes) {
    case Completes::words:
      return "_virtrain_words " + join(argument.words, " ");
    case Completes::files:
      return "_virtrain_files";
    case Completes::folders:
      return "_virtrain_folders";
    case Completes::experiments:
      return "_virtrain_words $(" + listing_command("list") + ")";
    case Completes::schedules:
      return "_virtrain_words $(" + listing_command("schedule list") + ")";
    case Completes::nothing:
      break;
  }
  return ":";
}

/// Names of the verb's own options, or only of those that the verbs below it take too.
std::vector<std::string> option_names(const Verb& verb, bool taken_below) {
  std::vector<std::string> names;
  for (const auto& option : verb.options) {
    if (taken_below && !is_taken_below(option)) { continue; }
    for (const auto& name : option.names) {
      if (name.starts_with("--")) { names.push_back(name); }
    }
  }
  return names;
}

/// After an option that takes a value; "*" stands for every verb.
std::string values(const Verb& verb, const std::string& where) {
  std::string text;
  for (const auto& option : verb.options) {
    if (option.value.empty()) { continue; }
    std::vector<std::string> patterns;
    for (const auto& name : option.names) { patterns.push_back(fmt::format("{}' {}'", where, name)); }
    text += fmt::format("        {}) {}; return ;;\n", join(patterns, " | "), action(option));
  }
  return text;
}

/// A word that is no option.
std::string word_action(const Verb& verb) {
  std::vector<std::string> names;
  for (const auto& below : verb.verbs) { names.push_back(word_of(below)); }
  if (!names.empty()) { return "_virtrain_words " + join(names, " "); }
  return verb.positionals.empty() ? ":" : action(verb.positionals.front());
}

}  // namespace

std::string bash_completion(const Verb& program) {
  const auto verbs = all_verbs(program);
  std::string paths, after_option, dashes, words;
  for (const auto* verb : verbs) {
    const auto path = path_of(*verb);
    const auto pattern = "'" + path + "'";
    if (!path.empty()) {
      paths += fmt::format("            {}) verb=${{verb:+$verb }}${{COMP_WORDS[i]}} ;;\n",
                           path.find(' ') == std::string::npos ? "' " + path + "'" : pattern);
      after_option += values(*verb, "'" + path + "'");
    }
    auto options = option_names(*verb, false);
    if (!path.empty()) {
      const auto of_program = option_names(program, true);
      options.insert(options.end(), of_program.begin(), of_program.end());
    }
    dashes += fmt::format("            {}) _virtrain_words {} ;;\n", pattern, join(options, " "));
    words += fmt::format("            {}) {} ;;\n", pattern, word_action(*verb));
  }
  after_option += values(program, "*");
  return std::string("# bash completion of virtrain, made by `virtrain completion bash`\n") + helpers +
         beginning + paths + "        esac\n    done\n    case \"$verb $previous\" in\n" + after_option +
         "    esac\n    if [[ $current == -* ]]; then\n        case $verb in\n" + dashes +
         "        esac\n    else\n        case $verb in\n" + words +
         "        esac\n    fi\n}\ncomplete -F _virtrain virtrain\n";
}

}  // namespace virtrain::harness::manual
