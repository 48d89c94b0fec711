#include "harness/scenario/placeholders.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/text/scanner.h"
#include "results/store/records.h"

namespace virtrain::harness {
namespace {

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_';
}

/// Hands each part of a word to the one or the other: texts (and whether one is a brace that was there
/// twice), and names of placeholders.
template <typename OnText, typename OnName>
void take_apart(std::string_view word, OnText&& on_text, OnName&& on_name) {
  while (!word.empty()) {
    const char c = word[0];
    const bool is_brace = c == '{' || c == '}';
    if (is_brace && word.size() > 1 && word[1] == c) {
      on_text(word.substr(0, 1), true);
      word.remove_prefix(2);
      continue;
    }
    const auto* const end = std::find_if_not(word.begin() + 1, word.end(), is_of_name);
    const bool is_name = c == '{' && end != word.end() && *end == '}' && end > word.begin() + 1;
    if (is_name) {
      on_name(std::string(word.begin() + 1, end));
      word.remove_prefix(static_cast<std::size_t>(end - word.begin()) + 1);
    } else {
      on_text(word.substr(0, 1), false);
      word.remove_prefix(1);
    }
  }
}

/// Keys with an effect on any job: they are of its processes, and not of a model.
constexpr std::array<std::string_view, 2> keys_of_any_job{"env", "threads"};

}  // namespace

bool is_of_trainer(const std::string& key) {
  return key == "model" || key == "backend";
}

std::vector<std::string> placeholders_in(const std::string& word) {
  std::vector<std::string> names;
  take_apart(
      word, [](std::string_view, bool) {}, [&](std::string name) { names.push_back(std::move(name)); });
  return names;
}

std::set<std::string> placeholders_in(const std::vector<std::string>& words) {
  std::set<std::string> names;
  for (const auto& word : words) {
    for (auto& name : placeholders_in(word)) { names.insert(std::move(name)); }
  }
  return names;
}

bool mixes_braces(const std::string& word) {
  bool has_single = false, has_pair = false;
  take_apart(
      word,
      [&](std::string_view part, bool is_pair) {
        has_pair = has_pair || is_pair;
        has_single = has_single || (!is_pair && (part == "{" || part == "}"));
      },
      [](const std::string&) {});
  return has_single && has_pair;
}

std::string filled(const std::string& word, const std::map<std::string, std::string>& values) {
  std::string text;
  take_apart(
      word, [&](std::string_view part, bool) { text += part; },
      [&](const std::string& name) {
        const auto value = values.find(name);
        text += value == values.end() ? "{" + name + "}" : value->second;
      });
  return text;
}

std::map<std::string, std::string> workload_placeholders(const Workload& workload) {
  std::map<std::string, std::string> values;
  for_each_field<Workload>([&](const auto& field) {
    using Value = std::remove_cvref_t<decltype(workload.*field.member)>;
    if constexpr (!std::is_same_v<Value, Variables>) {
      if (field.is.key != nullptr && !is_of_trainer(field.is.key)) {
        values[field.is.key] = value_text(workload.*field.member);
      }
    }
  });
  return values;
}

bool uses_setting(const Workload& workload, const std::string& key) {
  return !workload.job || std::ranges::find(keys_of_any_job, key) != keys_of_any_job.end() ||
         placeholders_in(workload.job->command).contains(key);
}

std::string unit_of(const Workload& workload) {
  return workload.job ? workload.job->throughput.unit : results::images_unit;
}

}  // namespace virtrain::harness
