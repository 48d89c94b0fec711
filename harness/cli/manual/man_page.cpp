#include "harness/cli/manual/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "common/text/text.h"

namespace virtrain::harness::manual {
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
