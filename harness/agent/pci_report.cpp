#include "harness/agent/pci_report.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t kMostFunctions = 4096;
constexpr std::size_t kMostTextBytes = 64;
constexpr std::size_t kMostBridges = 32;

nlohmann::json to_json(const vmctl::PciLink& link) {
  return {{"speed", link.speed}, {"width", link.width}};
}

/// Text of a bounded length that can be printed.
std::string text_of(const nlohmann::json& value) {
  const auto text = value.get<std::string>();
  if (text.size() > kMostTextBytes) throw Error("read PCI report", ErrorCode::protocol, "a text is too long");
  return printable(text);
}

vmctl::PciLink link_of(const nlohmann::json& value) {
  return {text_of(value.at("speed")), value.at("width").get<int>()};
}

vmctl::PciFunction function_of(const nlohmann::json& value) {
  vmctl::PciFunction function;
  function.address = text_of(value.at("address"));
  function.vendor = text_of(value.at("vendor"));
  function.device = text_of(value.at("device"));
  function.class_code = text_of(value.at("class"));
  function.driver = text_of(value.at("driver"));
  function.numa_node = value.at("numa_node").get<int>();
  function.root_complex = text_of(value.at("root_complex"));
  for (const auto& bridge : value.at("bridges")) function.bridges.push_back(text_of(bridge));
  if (function.bridges.size() > kMostBridges)
    throw Error("read PCI report", ErrorCode::protocol, "too many bridges");
  function.link = link_of(value.at("link"));
  function.link_possible = link_of(value.at("link_possible"));
  return function;
}

}  // namespace

std::string pci_report(const std::vector<vmctl::PciFunction>& functions) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& function : functions)
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
  return list.dump();
}

std::vector<vmctl::PciFunction> parse_pci_report(const std::string& text) {
  try {
    const auto list = nlohmann::json::parse(text);
    if (!list.is_array() || list.size() > kMostFunctions)
      throw Error("read PCI report", ErrorCode::protocol, "it is no list, or too long");
    std::vector<vmctl::PciFunction> functions;
    for (const auto& value : list) functions.push_back(function_of(value));
    return functions;
  } catch (const nlohmann::json::exception& error) {
    throw Error("read PCI report", ErrorCode::protocol, printable(error.what()));
  }
}

}  // namespace virtrain::harness
