#include "harness/cli/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/text.h"

namespace virtrain::harness::manual {

bool is_taken_below(const Argument& option) {
  return option.names.back() != "--help" && option.names.back() != "--version";
}

std::string word_of(const Verb& verb) {
  return verb.name.substr(verb.name.rfind(' ') + 1);
}

std::vector<const Verb*> all_verbs(const Verb& verb) {
  std::vector<const Verb*> found{&verb};
  for (const auto& below : verb.verbs) {
    const auto deeper = all_verbs(below);
    found.insert(found.end(), deeper.begin(), deeper.end());
  }
  return found;
}

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

namespace {

/// Sections on the program's input and output; the options say the rest.
constexpr const char* about_the_program =
    ".SH EXIT STATUS\n"
    ".TS\n"
    "l lx.\n"
    "0\tdone\n"
    "1\tan expectation failed, or a loss is open\n"
    "2\twrong options or arguments\n"
    "3\ta scenario or an input file is wrong; nothing was done\n"
    "4\tthis host cannot do it, or the operating system refused something\n"
    "5\tthere is no verdict\n"
    "6\ta trial failed\n"
    "75\tcores or devices are busy\n"
    "129, 130, 143\tstopped by SIGHUP, SIGINT or SIGTERM\n"
    ".TE\n"
    ".SH ENVIRONMENT\n"
    ".TP\n"
    ".B VIRTRAIN_DB\n"
    "Results database where --db is not given.\n"
    ".TP\n"
    ".B VIRTRAIN_STATE_DIR\n"
    "Folder of the journal and the logs.\n"
    ".TP\n"
    ".B VIRTRAIN_CACHE_DIR\n"
    "Folder of guest images and of what was found out about this host.\n"
    ".TP\n"
    ".BR XDG_DATA_HOME \", \" XDG_STATE_HOME \", \" XDG_CACHE_HOME \", \" XDG_CONFIG_HOME\n"
    "Where these are set, they stand for the folders below the home folder that FILES names.\n"
    ".TP\n"
    ".B NO_COLOR\n"
    "Where it is set, tables have no colour.\n"
    ".SH FILES\n"
    ".TP\n"
    ".I \\(ti/.local/share/virtrain/results.db\n"
    "The results database.\n"
    ".TP\n"
    ".IR /var/lib/virtrain \", \" \\(ti/.local/state/virtrain\n"
    "Journal of what runs hold, and logs of trials: root's, and other users'.\n"
    ".TP\n"
    ".IR /var/cache/virtrain \", \" \\(ti/.cache/virtrain\n"
    "Guest images. They can be deleted; the next run makes them again.\n"
    ".TP\n"
    ".I \\(ti/.config/virtrain/schedules\n"
    "Schedules.\n"
    ".TP\n"
    ".I /usr/share/virtrain/scenarios\n"
    "Scenarios to begin with.\n"
    ".TP\n"
    ".I /usr/share/doc/virtrain/docs\n"
    "The guides: getting-started.md, scenarios.md, hosts.md and others.\n";

/// A line of text: nothing in it is a request or an escape.
std::string roff_text(const std::string& line) {
  std::string text;
  for (const char c : line) {
    switch (c) {
      case '\\':
        text += "\\e";
        break;
      case '~':
        text += "\\(ti";
        break;
      case '^':
        text += "\\(ha";
        break;
      case '`':
        text += "\\(ga";
        break;
      case '\'':
        text += "\\(aq";
        break;
      case '"':
        text += "\\(dq";
        break;
      default:
        text += c;
    }
  }
  return text.starts_with('.') ? "\\&" + text : text;
}

/// As it is typed: its dashes are those of the keyboard.
std::string typed(const std::string& line) {
  std::string text;
  for (const char c : roff_text(line)) { text += c == '-' ? "\\-" : std::string(1, c); }
  return text;
}

std::string bold(const std::string& word) {
  return "\\fB" + typed(word) + "\\fR";
}

std::string slanted(const std::string& word) {
  return "\\fI" + typed(word) + "\\fR";
}

std::string reference(const Verb& verb) {
  return ".BR " + typed(page_name(verb)) + " (1)";
}

std::string lower_first(std::string text) {
  const bool is_word = text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0;
  if (is_word) { text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0]))); }
  return text;
}

/// A footer taken apart, in the words of --help.
struct Footer {
  std::vector<std::string> paragraphs;
  std::vector<std::string> examples;  ///< lines
  std::string exit_codes;
};

void append_word(std::string& text, std::string_view words) {
  if (!text.empty()) { text += ' '; }
  text += words;
}

Footer read_footer(const std::string& text) {
  enum class In { prose, examples, exit_codes } in = In::prose;
  Footer footer;
  bool begins = true;
  for (const auto& line : split(text, '\n')) {
    const auto words = std::string(trim(line));
    if (words == "Examples:" || words == "Example:") {
      in = In::examples;
    } else if (words.starts_with("Exit codes")) {
      in = In::exit_codes;
      footer.exit_codes = words;
    } else if (words.empty()) {
      begins = true;
      if (in != In::prose) { in = In::prose; }
    } else if (in == In::examples) {
      footer.examples.push_back(line.substr(std::min<std::size_t>(2, line.find_first_not_of(' '))));
    } else if (in == In::exit_codes) {
      append_word(footer.exit_codes, words);
    } else {
      if (std::exchange(begins, false)) { footer.paragraphs.emplace_back(); }
      append_word(footer.paragraphs.back(), words);
    }
  }
  return footer;
}

std::string synopsis(const Verb& verb) {
  std::string line = bold(verb.name) + " [" + slanted("options") + "]";
  for (const auto& argument : verb.positionals) {
    const auto name = slanted(argument.names.front()) + (argument.repeatable ? " \\&..." : "");
    line += argument.required ? " " + name : " [" + name + "]";
  }
  if (!verb.verbs.empty()) { line += " " + slanted("command"); }
  return line + "\n";
}

std::string heading_of(const Argument& argument) {
  std::vector<std::string> names;
  const bool by_itself = !argument.names.front().starts_with('-');
  for (const auto& name : argument.names) { names.push_back(by_itself ? slanted(name) : bold(name)); }
  auto line = join(names, ", ");
  if (!argument.value.empty() && !by_itself) {
    line += (argument.names.back().starts_with("--") ? "=" : " ") + slanted(argument.value);
  }
  return line;
}

std::string entry(const Argument& argument) {
  auto text = argument.text;
  if (!text.ends_with('.')) { text += '.'; }
  // Where the sentence already lists the words, once is enough.
  const bool says_them = std::ranges::all_of(
      argument.words, [&](const auto& word) { return argument.text.find(word) != std::string::npos; });
  if (!says_them) { text += " Allowed: " + join(argument.words, ", ") + "."; }
  if (!argument.initial.empty()) { text += " Default: " + argument.initial + "."; }
  if (argument.required && argument.names.front().starts_with('-')) { text += " It must be given."; }
  if (argument.repeatable) { text += " It may be given several times."; }
  return ".TP\n" + heading_of(argument) + "\n" + roff_text(text) + "\n";
}

std::string options(const Verb& verb) {
  std::string text = ".SH OPTIONS\n", group;
  for (const auto& argument : verb.positionals) { text += entry(argument); }
  for (const auto& argument : verb.options) {
    if (argument.group != group) { text += ".SS " + roff_text(argument.group) + "\n"; }
    group = argument.group;
    text += entry(argument);
  }
  return text;
}

std::string commands(const Verb& verb) {
  std::string text = ".SH COMMANDS\n";
  for (const auto& below : verb.verbs) {
    text += ".TP\n" + reference(below) + "\n" + roff_text(below.text) + ".\n";
  }
  return text;
}

}  // namespace

std::string page_name(const Verb& verb) {
  auto name = verb.name;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const Verb& verb, const Verb& program, const std::string& version) {
  const bool is_program = &verb == &program;
  const auto footer = read_footer(verb.footer);
  // The program says its own name first.
  const auto named = verb.name + ": ";
  const auto what = verb.text.starts_with(named) ? verb.text.substr(named.size()) : lower_first(verb.text);
  auto title = page_name(verb);
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  // The first line names the preprocessor of tables.
  std::string page = is_program ? "'\\\" t\n" : "";
  page += fmt::format(".TH {} 1 \"\" \"virtrain {}\" \"User Commands\"\n", typed(title), version);
  const auto summary = what.ends_with('.') ? what.substr(0, what.size() - 1) : what;
  page += fmt::format(".SH NAME\n{} \\- {}\n", typed(page_name(verb)), roff_text(summary));
  page += ".SH SYNOPSIS\n" + synopsis(verb);
  if (!footer.paragraphs.empty() || is_program) {
    page += ".SH DESCRIPTION\n";
    const char* separator = "";
    for (const auto& paragraph : footer.paragraphs) {
      page += std::exchange(separator, ".PP\n") + roff_text(paragraph) + "\n";
    }
    if (is_program) {
      page +=
          std::string(separator) +
          "One command takes a scenario file, boots virtual machines through libvirt, trains ResNet\\-50 in "
          "them and on bare metal of the same size, and leaves throughput, speedup and a statistical verdict "
          "in a database, in the terminal and in a report.\n";
    }
  }
  if (!verb.verbs.empty()) { page += commands(verb); }
  page += options(verb);
  if (!footer.exit_codes.empty()) {
    const auto codes =
        footer.exit_codes.starts_with("Exit codes: ") ? footer.exit_codes.substr(12) : footer.exit_codes;
    page += ".SH EXIT STATUS\n" + roff_text(codes) + ".\n";
  }
  if (is_program) { page += about_the_program; }
  if (!footer.examples.empty()) {
    page += ".SH EXAMPLES\n.EX\n";
    for (const auto& line : footer.examples) { page += typed(line) + "\n"; }
    page += ".EE\n";
  }
  page += ".SH SEE ALSO\n" +
          (is_program ? ".BR virsh (1),\n.BR qemu\\-system\\-x86_64 (1)" : reference(program)) + "\n";
  return page;
}

}  // namespace virtrain::harness::manual
