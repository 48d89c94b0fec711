#include "harness/cli/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/scenario/decode/decode.h"

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
  static const std::map<std::string, std::string> elsewhere{{"root", "system"},
                                                            {"user", "session"},
                                                            {"container", "namespaces"},
                                                            {"text", "table"},
                                                            {"md", "markdown"}};
  const auto found = elsewhere.find(word);
  const auto near = found != elsewhere.end() && contains(known, found->second) ? std::optional(found->second)
                                                                               : nearest_word(word, known);
  return near ? fmt::format("; did you mean {}?", *near) : "";
}

/// Words that other tools have for what virtrain calls otherwise.
std::string word_of_ours(const std::string& word) {
  static const std::map<std::string, const char*> known{
      {"--dry-run", "virtrain plan SCENARIO"},
      {"--dry_run", "virtrain plan SCENARIO"},
      {"--fix", "virtrain doctor, which changes nothing and lists the commands"},
      {"--every", "--at"},
      {"-f", "--format"},
      {"-n", "--set pairs=N"},
      {"--runs", "--set pairs=N"},
      {"--repeat", "--set pairs=N"},
      {"--repetitions", "--set pairs=N"},
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

bool takes(const CLI::App* verb, const char* flag) {
  return verb->get_option_no_throw(flag) != nullptr;
}

/// "; did you mean --set workload.batch_size=…?" for a flag that is a key of scenarios.
std::string key_of_flag(const CLI::App* verb, const std::string& flag) {
  if (!takes(verb, "--set")) { return ""; }
  auto key = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::ranges::replace(key, '-', '_');
  const auto schema = scenario_schema();
  const auto& all = schema.at("properties");
  if (all.contains(key)) { return fmt::format("; did you mean --set {}=…?", key); }
  for (const auto* block : {"workload", "guest"}) {
    const auto keys = all.at(block).value("properties", nlohmann::ordered_json::object());
    if (keys.contains(key)) { return fmt::format("; did you mean --set {}.{}=…?", block, key); }
  }
  return "";
}

std::string unknown_flag(const CLI::App* verb, const std::string& flag) {
  if (takes(verb, flag.c_str())) {
    return fmt::format("{0} belongs behind the command: {1} {0} …", flag, full_name(verb));
  }
  const bool wants_a_look = flag.starts_with("--dry") && takes(verb, "--verify");
  auto advice = wants_a_look ? std::string("; did you mean --verify?") : word_of_ours(flag);
  if (advice.empty()) { advice = key_of_flag(verb, flag); }
  return fmt::format("{} has no option {}{}", full_name(verb), flag,
                     advice.empty() ? meant(flag, flags_of(verb)) : advice);
}

/// An argument that the verb does not take.
std::string unknown_argument(const CLI::App* verb, const std::string& word) {
  auto advice = std::string();
  if (word.ends_with(".db") && takes(verb, "--db")) { advice = "; did you mean --db " + word + "?"; }
  if (verb->get_name() == "scenarios") { advice = "; did you mean virtrain plan " + word + "?"; }
  return fmt::format("{} does not take '{}'{}", full_name(verb), word, advice);
}

/// A word that is no verb, or no flag of this verb.
std::string unknown_word(const CLI::App* verb, const std::string& word) {
  if (word.starts_with('-')) { return unknown_flag(verb, word.substr(0, word.find('='))); }
  constexpr std::size_t most_listed = 8;
  if (const auto verbs = verbs_of(verb); verbs.size() > most_listed) {
    const auto ours = word_of_ours(word);
    return fmt::format("there is no '{} {}'{}", full_name(verb), word,
                       ours.empty() ? meant(word, verbs) : ours);
  } else if (!verbs.empty()) {
    return fmt::format("there is no '{} {}' {}", full_name(verb), word, allowed_words(word, verbs));
  }
  return unknown_argument(verb, word);
}

/// CLI11's complaint, with what to write.
std::string own_complaint(const CLI::App* verb, std::string theirs) {
  const auto before = [&](std::string_view end) {
    const auto at = theirs.find(end);
    return at == std::string::npos ? std::string() : theirs.substr(0, at);
  };
  if (theirs == "A subcommand is required") {
    return fmt::format("{} needs one of its commands ({})", full_name(verb), join(verbs_of(verb), ", "));
  }
  if (const auto name = before(" is required"); !name.empty()) {
    const auto* option = verb->get_option_no_throw(name);
    return fmt::format("{} needs {}{}", full_name(verb), name,
                       option == nullptr ? "" : ": " + option->get_description());
  }
  if (const auto name = before(": 1 required "); !name.empty()) {
    return fmt::format(
        "{0} needs a value: {0} {1}", name,
        theirs.substr(theirs.find("required ") + 9, theirs.rfind(" missing") - theirs.find("required ") - 9));
  }
  if (theirs.starts_with("Could not convert: ") && theirs.find(" = ") != std::string::npos) {
    const auto name = theirs.substr(19, theirs.find(" = ") - 19);
    const auto* option = verb->get_option_no_throw(name);
    if (option != nullptr && option->get_expected_max() == 0) { return name + " takes no value"; }
  }
  constexpr std::string_view excludes = " excludes ";
  if (const auto at = theirs.find(excludes); at != std::string::npos) {
    theirs.replace(at, excludes.size(), " is not allowed together with ");
  }
  return theirs;
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
  const auto complaint =
      unknown.empty() ? own_complaint(verb, error.what()) : unknown_word(verb, unknown.front());
  return fmt::format("virtrain: {}\n{} --help shows what it takes\n", complaint, full_name(verb));
}

}  // namespace virtrain::harness
