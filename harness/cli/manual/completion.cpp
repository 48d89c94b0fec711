#include "harness/cli/manual/completion.h"

#include <algorithm>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/text.h"

namespace virtrain::harness::manual {
namespace {

/// Each shell, where it looks for its script, and the script.
struct Shell {
  const char *name, *file, *script;
};

constexpr Shell known_shells[] = {
    {"bash", "bash/virtrain", R"sh(# bash completion of virtrain, made by `virtrain completion bash`
_virtrain() {
    local current=${COMP_WORDS[COMP_CWORD]} found
    if [[ $current == = ]]; then current=''; fi  # --format=json is three words
    mapfile -t found < <(virtrain complete-word -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=()
    case ${found[0]} in
        :files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        :folders) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        *) COMPREPLY=("${found[@]%%$'\t'*}") ;;
    esac
}
complete -F _virtrain virtrain
)sh"},
    {"fish", "fish/virtrain.fish", R"sh(# fish completion of virtrain, made by `virtrain completion fish`
function __virtrain_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (virtrain complete-word -- $words[2..-1] 2>/dev/null)
    set -l option (string match -r -- '^--[^=]*=' $words[-1]; or echo)
    set -l value (string replace -r -- '^--[^=]*=' '' $words[-1])
    switch "$found[1]"
        case :files
            printf '%s\n' $option(__fish_complete_path $value '')
        case :folders
            printf '%s\n' $option(__fish_complete_directories $value '')
        case '*'
            string join -- \n $found
    end
end
complete -c virtrain -f -a '(__virtrain_complete)'
)sh"},
    // Read by `source` it only says whom to ask; as an autoloaded function it is the first call.
    {"zsh", "zsh/_virtrain", R"sh(#compdef virtrain
# zsh completion of virtrain, made by `virtrain completion zsh`
_virtrain() {
  local -a asked=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}") found
  found=(${(f)"$(virtrain complete-word -- "${asked[@]}" 2>/dev/null)"})
  case $found[1] in
    :files) compset -P '--*='; _files ;;
    :folders) compset -P '--*='; _files -/ ;;
    *) found=("${(@)found//:/\\:}"); found=("${(@)found/$'\t'/:}"); _describe -t words virtrain found ;;
  esac
}
if [[ $funcstack[1] == _virtrain ]]; then _virtrain "$@"; else compdef _virtrain virtrain; fi
)sh"},
};

/// Characters that mean nothing to a shell.
constexpr const char* plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

const Shell& shell_of(const std::string& name) {
  for (const auto& shell : known_shells) {
    if (shell.name == name) { return shell; }
  }
  throw Error("complete for " + name, ErrorCode::usage, "there are scripts for " + join(shells(), ", "));
}

const Argument* option_of(const Verb& verb, const Verb& program, const std::string& name) {
  for (const auto* owner : {&verb, &program}) {
    for (const auto& option : owner->options) {
      if (contains(option.names, name) && (owner == &verb || is_taken_below(option))) { return &option; }
    }
  }
  return nullptr;
}

/// The place of the last word in the command line.
struct Place {
  const Verb* verb;
  const Argument* takes_value = nullptr;  ///< the option whose value the word is
  std::size_t positional = 0;             ///< or the number of values before it that stand by themselves
  bool options_end = false;               ///< after "--"
  std::vector<const Argument*> given = {};
};

void pass(const std::string& word, const Verb& program, Place& place) {
  if (place.takes_value != nullptr) {
    place.takes_value = nullptr;
  } else if (!place.options_end && word == "--") {
    place.options_end = true;
  } else if (!place.options_end && word.starts_with('-')) {
    const auto equals = word.find('=');
    const auto* option = option_of(*place.verb, program, word.substr(0, equals));
    place.given.push_back(option);
    const bool takes = option != nullptr && !option->value.empty() && equals == std::string::npos;
    place.takes_value = takes ? option : nullptr;
  } else if (const auto below = std::ranges::find(place.verb->verbs, word, word_of);
             below != place.verb->verbs.end()) {
    place.verb = &*below;
  } else {
    ++place.positional;
  }
}

std::string line_of(const std::string& word, const std::string& text = {}) {
  return text.empty() ? word + "\n" : word + "\t" + text + "\n";
}

/// Values of the argument that begin with `begun`, behind `option`: "--format=".
std::string value_lines(const Argument& argument, const std::string& begun, const std::string& option,
                        const Listed& listed) {
  std::vector<std::string> found;
  switch (argument.completes) {
    case Completes::files:
      return ":files\n";
    case Completes::folders:
      return ":folders\n";
    case Completes::nothing:
      break;
    case Completes::words:
      found = argument.words;
      break;
    case Completes::experiments:
    case Completes::schedules:
      found = listed(argument.completes);
      std::erase_if(found, [](const std::string& id) {
        return id.empty() || id.find_first_of("._-") == 0 || id.find_first_not_of(plain) != std::string::npos;
      });
  }
  std::string lines;
  for (const auto& word : found) {
    if (word.starts_with(begun)) { lines += line_of(option + word); }
  }
  return lines;
}

std::string option_lines(const Place& place, const Verb& program, const std::string& begun) {
  std::string lines;
  for (const auto* owner : {place.verb, &program}) {
    for (const auto& option : owner->options) {
      const bool is_given = !option.repeatable && contains(place.given, &option);
      if (is_given || (owner != place.verb && !is_taken_below(option))) { continue; }
      for (const auto& name : option.names) {
        if (name.starts_with(begun)) { lines += line_of(name, option.text); }
      }
    }
    if (place.verb == &program) { break; }
  }
  return lines;
}

}  // namespace

std::string completions(const Verb& program, std::vector<std::string> words, const Listed& listed) {
  if (words.empty()) { return {}; }
  if (words.back() == "=") { words.emplace_back(); }
  std::erase(words, "=");  // bash has --format=json as three words
  const auto last = words.back();
  Place place{&program};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) { pass(words[i], program, place); }
  if (place.takes_value != nullptr) { return value_lines(*place.takes_value, last, "", listed); }
  if (!place.options_end && last.starts_with('-')) {
    const auto equals = last.find('=');
    if (equals == std::string::npos) { return option_lines(place, program, last); }
    const auto* option = option_of(*place.verb, program, last.substr(0, equals));
    return option == nullptr
               ? ""
               : value_lines(*option, last.substr(equals + 1), last.substr(0, equals + 1), listed);
  }
  std::string lines;
  for (const auto& below : place.verb->verbs) {
    const auto word = word_of(below);
    if (word.starts_with(last)) { lines += line_of(word, below.text); }
  }
  const auto& positionals = place.verb->positionals;
  if (!positionals.empty() && (place.positional < positionals.size() || positionals.back().repeatable)) {
    lines += value_lines(positionals[std::min(place.positional, positionals.size() - 1)], last, "", listed);
  }
  return lines;
}

std::vector<std::string> shells() {
  std::vector<std::string> names;
  for (const auto& shell : known_shells) { names.emplace_back(shell.name); }
  return names;
}

std::string completion(const std::string& shell) {
  return shell_of(shell).script;
}

std::string completion_file(const std::string& shell) {
  return shell_of(shell).file;
}

}  // namespace virtrain::harness::manual
