#pragma once

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

}  // namespace virtrain::harness::manual
