#pragma once

#include <functional>
#include <string>
#include <vector>

namespace virtrain::harness::manual {

/// Completions that a shell can offer for a value.
enum class Completes {
  nothing,      ///< free text
  words,        ///< one of Argument::words
  files,        ///< paths
  folders,      ///< paths of folders
  experiments,  ///< ids of the results database
  schedules,    ///< names that `virtrain schedule list` shows
};

/// An option, or a value that stands by itself.
struct Argument {
  std::vector<std::string> names;  ///< "-o", "--output"; one name without dashes: it stands by itself
  std::string value;               ///< "FILE"; empty: a flag
  std::string text;                ///< one sentence
  std::string initial;             ///< its value where none is given, as --help shows it
  std::string group;               ///< heading that it stands under; empty: the usual one
  std::vector<std::string> words;  ///< all values that it may have
  Completes completes = Completes::nothing;
  bool required = false;
  bool repeatable = false;
};

/// `virtrain`, `virtrain run` or `virtrain schedule add`: what manual pages and completions are made from.
struct Verb {
  std::string name;    ///< "virtrain schedule add"
  std::string text;    ///< one sentence
  std::string footer;  ///< paragraphs, "Examples:" and "Exit codes:" among them
  std::vector<Argument> options;
  std::vector<Argument> positionals;
  std::vector<Verb> verbs;
};

/// Whether the verbs below one that has this option take it too: all but --help and --version.
bool is_taken_below(const Argument& option);
/// The last word of its name: "add".
std::string word_of(const Verb& verb);
/// The verb and all below it, each before those below it.
std::vector<const Verb*> all_verbs(const Verb& verb);

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

/// "virtrain-schedule-add"
std::string page_name(const Verb& verb);
/// The page of section 1 as man(7) has it; `program` is the verb at the top, to which every page refers.
std::string man_page(const Verb& verb, const Verb& program, const std::string& version);

}  // namespace virtrain::harness::manual
