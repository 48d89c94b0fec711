#include "harness/cli/help/choices.h"

#include <fmt/format.h>

#include <map>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

/// The verb that was given, however deep ("schedule add").
const CLI::App* innermost(const CLI::App* app) {
  const auto chosen = app->get_subcommands();
  return chosen.empty() ? app : innermost(chosen.front());
}

/// "virtrain schedule add"
std::string full_name(const CLI::App* app) {
  return app->get_parent() == nullptr ? "virtrain" : full_name(app->get_parent()) + " " + app->get_name();
}

std::vector<std::string> verbs_of(const CLI::App* app) {
  std::vector<std::string> names;
  for (const auto* verb : app->get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) { names.push_back(verb->get_name()); }
  }
  return names;
}

std::vector<std::string> flags_of(const CLI::App* app) {
  std::vector<std::string> names;
  for (; app != nullptr; app = app->get_parent()) {
    for (const auto* option : app->get_options()) {
      for (const auto& name : option->get_lnames()) { names.push_back("--" + name); }
    }
  }
  return names;
}

std::string meant(const std::string& word, const std::vector<std::string>& known) {
  const auto near = nearest_word(word, known);
  return near ? fmt::format("; did you mean {}?", *near) : "";
}

/// Words that other tools have for what virtrain calls otherwise.
std::string word_of_ours(const std::string& word) {
  static const std::map<std::string, const char*> known{
      {"--dry-run", "virtrain plan SCENARIO"},
      {"--dry_run", "virtrain plan SCENARIO"},
      {"--output-format", "--format"},
      {"check", "virtrain doctor, or virtrain validate SCENARIO"},
      {"delete", "virtrain clean"},
      {"diff", "virtrain compare"},
      {"history", "virtrain list"},
      {"init", "virtrain demo"},
      {"info", "virtrain show"},
      {"inspect", "virtrain show"},
      {"results", "virtrain list"},
      {"start", "virtrain run"},
      {"status", "virtrain list"}};
  const auto found = known.find(word);
  return found == known.end() ? "" : fmt::format("; did you mean {}?", found->second);
}

/// A word that is no verb, or no flag of this verb.
std::string unknown_word(const CLI::App* verb, const std::string& word) {
  if (word.starts_with('-')) {
    const auto flag = word.substr(0, word.find('='));
    const auto ours = word_of_ours(flag);
    return fmt::format("{} has no option {}{}", full_name(verb), flag,
                       ours.empty() ? meant(flag, flags_of(verb)) : ours);
  }
  constexpr std::size_t most_listed = 8;
  if (const auto verbs = verbs_of(verb); verbs.size() > most_listed) {
    const auto ours = word_of_ours(word);
    return fmt::format("there is no '{} {}'{}", full_name(verb), word,
                       ours.empty() ? meant(word, verbs) : ours);
  } else if (!verbs.empty()) {
    return fmt::format("there is no '{} {}' {}", full_name(verb), word, allowed_words(word, verbs));
  }
  return fmt::format("{} does not take '{}'", full_name(verb), word);
}

}  // namespace

std::string allowed_words(const std::string& word, const std::vector<std::string>& allowed) {
  return fmt::format("(allowed: {}{})", join(allowed, ", "), meant(word, allowed));
}

CLI::Validator one_of(std::vector<std::string> names) {
  // CLI11 shows a validator's description in --help, but never its name: what it allows is kept there.
  auto allowed = join(names, "|");
  const auto check = [names = std::move(names)](const std::string& word) -> std::string {
    if (contains(names, word)) { return {}; }
    return fmt::format("{} is not one of its values {}", excerpt(word), allowed_words(word, names));
  };
  return {check, "", std::move(allowed)};
}

CLI::Validator not_empty() {
  return {
      [](const std::string& word) {
        return std::string(word.empty() ? "an empty value is not allowed; leave it out for the default" : "");
      },
      ""};
}

std::vector<std::string> words_allowed_by(CLI::Option& option) {
  try {
    const int first = 0;
    const auto& allowed = option.get_validator(first)->get_name();
    return allowed.empty() ? std::vector<std::string>{} : split(allowed, '|');
  } catch (const CLI::OptionNotFound&) { return {}; }
}

std::string usage_words(const CLI::App* app, const CLI::Error& error) {
  const auto* verb = innermost(app);
  // For an unknown word CLI11 reports that it was not expected, or that a subcommand is missing.
  const auto unknown = app->remaining(true);
  auto complaint = unknown.empty() ? std::string(error.what()) : unknown_word(verb, unknown.front());
  constexpr std::string_view theirs = " excludes ";
  if (const auto at = complaint.find(theirs); unknown.empty() && at != std::string::npos) {
    complaint.replace(at, theirs.size(), " is not allowed together with ");
  }
  return fmt::format("virtrain: {}\n{} --help shows what it takes\n", complaint, full_name(verb));
}

}  // namespace virtrain::harness
