#include "harness/agent/pci_report.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/json.h"
#include "common/text/printable.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_functions = 4096;
constexpr std::size_t most_text_bytes = 64;
constexpr std::size_t most_bridges = 32;
constexpr JsonLimits report_limits{.bytes = std::size_t{4} << 20, .depth = 8, .values = 200'000};

nlohmann::json to_json(const vmctl::PciLink& link) {
  return {{"speed", link.speed}, {"width", link.width}};
}

Error refused(const std::string& why) {
  return {"read PCI report", ErrorCode::protocol, why};
}

/// Text of a bounded length that can be printed.
std::string text_of(const nlohmann::json& value) {
  const auto text = value.get<std::string>();
  if (text.size() > most_text_bytes) { throw refused("a text is too long"); }
  return printable(text);
}

/// A NUMA node (-1: none) or the lanes of a link.
int small_number(const nlohmann::json& value) {
  constexpr std::int64_t least = -1, most = 4096;
  // Unsigned numbers beyond std::int64_t turn negative.
  const bool is_huge = value.is_number_unsigned() && value.get<std::uint64_t>() > most;
  const auto number = value.is_number_integer() && !is_huge ? value.get<std::int64_t>() : least - 1;
  if (number < least || number > most) { throw refused("a number is not valid for a PCI function"); }
  return static_cast<int>(number);
}

vmctl::PciLink link_of(const nlohmann::json& value) {
  return {text_of(value.at("speed")), small_number(value.at("width"))};
}

vmctl::PciFunction function_of(const nlohmann::json& value) {
  vmctl::PciFunction function;
  function.address = text_of(value.at("address"));
  function.vendor = text_of(value.at("vendor"));
  function.device = text_of(value.at("device"));
  function.class_code = text_of(value.at("class"));
  function.driver = text_of(value.at("driver"));
  function.numa_node = small_number(value.at("numa_node"));
  function.root_complex = text_of(value.at("root_complex"));
  const auto& bridges = value.at("bridges");
  if (bridges.size() > most_bridges) { throw refused("too many bridges"); }
  for (const auto& bridge : bridges) { function.bridges.push_back(text_of(bridge)); }
  function.link = link_of(value.at("link"));
  function.link_possible = link_of(value.at("link_possible"));
  return function;
}

}  // namespace

std::string pci_report(const std::vector<vmctl::PciFunction>& functions) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& function : functions) {
    list.push_back({{"address", function.address},
                    {"vendor", function.vendor},
                    {"device", function.device},
                    {"class", function.class_code},
                    {"driver", function.driver},
                    {"numa_node", function.numa_node},
                    {"root_complex", function.root_complex},
                    {"bridges", function.bridges},
                    {"link", to_json(function.link)},
                    {"link_possible", to_json(function.link_possible)}});
  }
  return list.dump();
}

std::vector<vmctl::PciFunction> parse_pci_report(const std::string& text) {
  try {
    const auto list = parse_json(text, "read PCI report", ErrorCode::protocol, report_limits);
    if (!list.is_array() || list.size() > most_functions) { throw refused("it is not a list, or too long"); }
    std::vector<vmctl::PciFunction> functions;
    for (const auto& value : list) { functions.push_back(function_of(value)); }
    return functions;
  } catch (const nlohmann::json::exception& error) { throw refused(excerpt(error.what())); }
}

}  // namespace virtrain::harness
