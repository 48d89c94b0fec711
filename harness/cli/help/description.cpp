#include "harness/cli/help/description.h"

#include <algorithm>

#include "common/files/user_folders.h"
#include "harness/cli/help/choices.h"

namespace virtrain::harness {
namespace {

using manual::Argument;
using manual::Completes;
using manual::Verb;

/// Reads the kind of a value from its type's name in --help: "FILE", "FILE.xml|NAME", "TEXT:DIR".
Completes completes(const std::string& type) {
  if (type.starts_with("FILE")) { return Completes::files; }
  if (type.starts_with("DIR") || type.ends_with(":DIR")) { return Completes::folders; }
  if (type == "EXPERIMENT") { return Completes::experiments; }
  if (type == "SCHEDULE") { return Completes::schedules; }
  return Completes::nothing;
}

std::string without_check(const std::string& type) {
  return type.ends_with(":DIR") ? "DIR" : type;
}

/// "~/.local/share/virtrain/results.db": for whoever reads it.
std::string without_home(const std::string& text) {
  const auto home = home_folder().string() + "/";
  return home.size() > 1 && text.starts_with(home) ? "~/" + text.substr(home.size()) : text;
}

Argument describe(CLI::Option& option) {
  Argument argument;
  for (const auto& name : option.get_snames()) { argument.names.push_back("-" + name); }
  for (const auto& name : option.get_lnames()) { argument.names.push_back("--" + name); }
  argument.text = option.get_description();
  argument.required = option.get_required();
  argument.repeatable = option.get_expected_max() > 1;
  if (option.get_group() != "Options") { argument.group = option.get_group(); }
  const bool takes_value = option.get_type_size() != 0;
  if (takes_value) {
    const auto type = option.get_type_name();
    argument.value = without_check(type);
    argument.initial = without_home(option.get_default_str());
    argument.completes = completes(type);
    argument.words = words_allowed_by(option);
    if (!argument.words.empty()) { argument.completes = Completes::words; }
  }
  return argument;
}

Verb describe(CLI::App& app, const std::string& name) {
  Verb verb;
  verb.name = name;
  verb.text = app.get_description();
  verb.footer = app.get_footer();
  for (auto* option : app.get_options([](CLI::Option*) { return true; })) {
    auto argument = describe(*option);
    if (option->get_positional()) {
      auto by_itself = argument;
      by_itself.names = {option->get_name(true)};
      verb.positionals.push_back(std::move(by_itself));
    }
    if (!argument.names.empty()) {
      argument.required = argument.required && !option->get_positional();
      verb.options.push_back(std::move(argument));
    }
  }
  for (auto* below : app.get_subcommands([](CLI::App*) { return true; })) {
    if (!below->get_group().empty()) {
      verb.verbs.push_back(describe(*below, name + " " + below->get_name()));
    }
  }
  return verb;
}

}  // namespace

Verb describe(CLI::App& app) {
  return describe(app, "virtrain");
}

}  // namespace virtrain::harness
