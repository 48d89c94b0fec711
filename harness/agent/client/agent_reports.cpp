#include "harness/agent/client/agent_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "common/text/described_json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;

constexpr std::size_t most_facts = 64;
constexpr std::size_t most_readings = 32;
constexpr std::size_t most_name_bytes = 64;
constexpr std::size_t most_text_bytes = 16384;  ///< a processor's flags are some 2,000

template <typename... Args>
Error refused(const char* what, fmt::format_string<Args...> why, Args&&... args) {
  return {fmt::format("read the node's {}", what), ErrorCode::protocol,
          fmt::format(why, std::forward<Args>(args)...)};
}

bool is_report_name(const std::string& name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= most_name_bytes && std::ranges::all_of(name, fits);
}

/// An object of at most so many members, all with plain names.
void check_names(const char* what, const json& object, std::size_t most) {
  if (!object.is_object()) { throw refused(what, "they are not an object"); }
  if (object.size() > most) { throw refused(what, "{} of them, at most {}", object.size(), most); }
  for (const auto& [name, value] : object.items()) {
    if (!is_report_name(name)) { throw refused(what, "'{}' is not a name", excerpt(name)); }
  }
}

bool is_count(const json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
}

}  // namespace

NodeReport checked_facts(const json& facts) {
  constexpr const char* what_is_read = "facts";
  check_names(what_is_read, facts, most_facts);
  json shown = json::object();
  NodeReport report;
  for (const auto& [name, value] : facts.items()) {
    const bool is_text = value.is_string() && value.get_ref<const std::string&>().size() <= most_text_bytes;
    if (!is_text && !is_count(value)) {
      throw refused(what_is_read, "'{}' is neither a short text nor a number of at least 0", name);
    }
    shown[name] = is_text ? json(printable(value.get_ref<const std::string&>())) : value;
    report.facts[name] = is_text ? shown[name].get<std::string>() : value.dump();
  }
  if (const auto refusal = read_record(shown, report); !refusal.empty()) {
    throw refused(what_is_read, "{}", refusal);
  }
  return report;
}

MachineReport checked_machine(const message::Machine& said) {
  constexpr const char* what_is_read = "machine";
  constexpr std::size_t most_networks = 256, most_bytes = 200;
  const auto shown = [](const std::optional<std::string>& text) {
    return printable(text.value_or("").substr(0, most_bytes));
  };
  if (said.networks.size() > most_networks) {
    throw refused(what_is_read, "{} networks, at most {}", said.networks.size(), most_networks);
  }
  MachineReport report{shown(said.identity), said.is_guest, shown(said.hypervisor), shown(said.vendor),
                       shown(said.product)};
  for (const auto& text : said.networks) {
    const auto words = split(text, ' ');
    const auto parts = words.size() == 2 ? split(words[1], '/') : std::vector<std::string>();
    const auto prefix = parts.size() == 2 ? parse_integer(parts[1]) : std::nullopt;
    const auto fits = [](char c) {
      return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_' || c == '@';
    };
    constexpr std::size_t longest_name = 15;
    const bool is_one = prefix && *prefix >= 0 && *prefix <= 32 && is_ipv4_address(parts[0]) &&
                        !words[0].empty() && words[0].size() <= longest_name &&
                        std::ranges::all_of(words[0], fits);
    if (!is_one) { throw refused(what_is_read, "'{}' is not a network", excerpt(text)); }
    report.networks.push_back({words[0], parts[0], static_cast<int>(*prefix)});
  }
  return report;
}

std::optional<Virtualization> virtualization_of(const MachineReport& machine) {
  if (!machine.is_guest) { return std::nullopt; }
  if (!*machine.is_guest) { return Virtualization::none; }
  // Whether KVM itself was nested does not show from inside.
  static const std::map<std::string, Virtualization> names{{"KVMKVMKVM", Virtualization::kvm},
                                                           {"Linux KVM Hv", Virtualization::kvm},
                                                           {"TCGTCGTCGTCG", Virtualization::tcg}};
  const auto known = names.find(machine.hypervisor);
  return known == names.end() ? std::nullopt : std::optional(known->second);
}

std::map<std::string, double> checked_readings(const json& values) {
  constexpr const char* what_is_read = "telemetry";
  check_names(what_is_read, values, most_readings);
  std::map<std::string, double> readings;
  for (const auto& [name, value] : values.items()) {
    if (!value.is_number()) { throw refused(what_is_read, "'{}' is not a number", name); }
    readings[name] = value.get<double>();
  }
  return readings;
}

}  // namespace virtrain::harness
