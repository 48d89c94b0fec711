#include "results/diagnosis/listings.h"

#include <fmt/format.h>
#include <pugixml.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <string>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/cpu_list.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

constexpr std::size_t most_functions = 4096;
constexpr std::size_t most_listed_name_bytes = 120;

bool holds_text(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// "17:00.0" and "0000:17:00.0" as the kernel writes them; empty where the text is none.
std::string listed_address(std::string_view text) {
  constexpr std::string_view form = "0000:00:00.0";
  const std::string whole = text.size() == form.size() - 5 ? "0000:" + std::string(text) : std::string(text);
  if (whole.size() < form.size() || whole.size() > form.size() + 4) { return ""; }
  const auto tail = std::string_view(whole).substr(whole.size() - form.size());
  for (std::size_t i = 0; i < form.size(); ++i) {
    const bool is_fine =
        form[i] == '0' ? std::isxdigit(static_cast<unsigned char>(tail[i])) != 0 : tail[i] == form[i];
    if (!is_fine) { return ""; }
  }
  return lower(whole);
}

int hexadecimal(std::string_view text) {
  int value = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc() ? value : -1;
}

/// The number that follows `mark`; 0 where there is none.
double listed_number(std::string_view text, std::string_view mark) {
  const auto at = text.find(mark);
  if (at == std::string_view::npos) { return 0; }
  auto rest = text.substr(at + mark.size());
  const auto end = rest.find_first_not_of("0123456789.");
  rest = rest.substr(0, end);
  double value = 0;
  const auto [last, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return error == std::errc() && value > 0 && value < 1e6 ? value : 0;
}

/// Reads a flag that lspci prints with its sign: "RlxdOrd+".
std::optional<bool> listed_flag(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos || at + name.size() >= text.size()) { return std::nullopt; }
  const char sign = text[at + name.size()];
  return sign == '+' || sign == '-' ? std::optional(sign == '+') : std::nullopt;
}

std::optional<ListedFunction::Link> listed_link(std::string_view text) {
  const ListedFunction::Link link{listed_number(text, "Speed "),
                                  static_cast<int>(listed_number(text, "Width x"))};
  return link.gigatransfers > 0 && link.width > 0 ? std::optional(link) : std::nullopt;
}

void take_bus(ListedFunction& function, std::string_view text) {
  const auto bus = [&](std::string_view mark) {
    const auto at = text.find(mark);
    return at == std::string_view::npos ? -1 : hexadecimal(text.substr(at + mark.size(), 2));
  };
  function.secondary = bus("secondary=");
  function.subordinate = bus("subordinate=");
}

void take_region(ListedFunction& function, std::string_view text) {
  const auto number = static_cast<int>(listed_number(text, "Region "));
  if (holds_text(text, "<unassigned>") || holds_text(text, "<ignored>")) {
    function.unmapped_regions.push_back(number);
  }
}

/// A kind of line below a function's first one.
struct Detail {
  std::string_view begin;
  void (*take)(ListedFunction& function, std::string_view text);
};
constexpr std::array details{
    Detail{"LnkCap:", [](ListedFunction& f, std::string_view text) { f.link_possible = listed_link(text); }},
    Detail{"LnkSta:", [](ListedFunction& f, std::string_view text) { f.link = listed_link(text); }},
    Detail{"DevCap:",
           [](ListedFunction& f, std::string_view text) {
             f.payload_possible = static_cast<int>(listed_number(text, "MaxPayload "));
           }},
    Detail{"RlxdOrd", [](ListedFunction& f,
                         std::string_view text) { f.relaxed_ordering = listed_flag(text, "RlxdOrd"); }},
    Detail{"MaxPayload ",
           [](ListedFunction& f, std::string_view text) {
             f.payload = static_cast<int>(listed_number(text, "MaxPayload "));
           }},
    Detail{"ACSCtl:",
           [](ListedFunction& f, std::string_view text) {
             f.redirects = listed_flag(text, "ReqRedir");
             f.direct_translated = listed_flag(text, "DirectTrans");
           }},
    Detail{"ATSCtl:", [](ListedFunction& f, std::string_view text) { f.ats = listed_flag(text, "Enable"); }},
    Detail{"Bus: primary=", take_bus},
    Detail{"Region ", take_region},
    Detail{"!!! Unknown header type", [](ListedFunction& f, std::string_view) { f.is_dead = true; }},
    Detail{"Kernel driver in use:", [](ListedFunction& f, std::string_view text) {
             f.driver = excerpt(trim(text.substr(text.find(':') + 1)), 64);
           }}};

}  // namespace

bool ListedFunction::is_gpu() const {
  return (holds_text(name, "NVIDIA") || holds_text(name, "Advanced Micro Devices") ||
          holds_text(name, "AMD")) &&
         (name.starts_with("3D controller") || name.starts_with("VGA compatible") ||
          name.starts_with("Display controller") || name.starts_with("Processing accelerators"));
}

bool ListedFunction::is_adapter() const {
  return name.starts_with("Infiniband controller") ||
         (name.starts_with("Ethernet controller") && holds_text(name, "Mellanox"));
}

bool ListedFunction::is_virtual_function() const {
  return holds_text(name, "Virtual Function");
}

bool ListedFunction::is_emulated() const {
  return holds_text(name, "Red Hat") || holds_text(name, "QEMU") || holds_text(name, "Virtio");
}

bool PciListing::is_of_guest() const {
  return std::ranges::any_of(functions, &ListedFunction::is_emulated);
}

std::vector<const ListedFunction*> PciListing::above(const ListedFunction& function) const {
  const auto domain_and_bus = [](const ListedFunction& one) {
    const auto colon = one.address.find(':');
    return std::pair(one.address.substr(0, colon),
                     hexadecimal(std::string_view(one.address).substr(colon + 1, 2)));
  };
  const auto [domain, bus] = domain_and_bus(function);
  std::vector<const ListedFunction*> found;
  for (const auto& one : functions) {
    if (one.is_bridge() && one.secondary <= bus && bus <= one.subordinate &&
        domain_and_bus(one).first == domain) {
      found.push_back(&one);
    }
  }
  return found;
}

bool PciReader::take(std::string_view line) {
  const auto begin = line.substr(0, line.find(' '));
  if (auto address = listed_address(begin); !address.empty() && holds_text(line, ": ")) {
    if (listing_.functions.size() == most_functions) { return false; }
    auto& function = listing_.functions.emplace_back();
    function.address = std::move(address);
    function.name = excerpt(trim(line.substr(begin.size())), most_listed_name_bytes);
    function.is_dead = line.ends_with("(rev ff)");
    return true;
  }
  const auto text = trim(line);
  if (listing_.functions.empty() || text.empty() || line.front() == text.front()) { return false; }
  listing_.is_denied = listing_.is_denied || holds_text(text, "<access denied>");
  for (const auto& detail : details) {
    if (!text.starts_with(detail.begin)) { continue; }
    listing_.is_whole = listing_.is_whole || detail.begin == "LnkCap:";
    detail.take(listing_.functions.back(), text);
  }
  return true;
}

std::optional<PciListing> PciReader::finish() {
  return listing_.functions.empty() ? std::nullopt : std::optional(listing_);
}

namespace {

constexpr std::size_t most_domain_values = 256;  // devices, models of NICs

std::string domain_text(const char* words) {
  return excerpt(words, 64);
}

/// "0x1f" or "31".
int domain_number(pugi::xml_attribute attribute) {
  const std::string_view text = attribute.value();
  const bool is_hex = text.starts_with("0x");
  const auto digits = is_hex ? text.substr(2) : text;
  int value = 0;
  const auto [rest, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hex ? 16 : 10);
  return error == std::errc() && value >= 0 ? value : 0;
}

void add_pins(GuestDomain& guest, pugi::xml_node tune) {
  for (auto pin : tune.children("vcpupin")) {
    ++guest.pinned_vcpus;
    try {
      const auto cpus = parse_cpu_list(pin.attribute("cpuset").value());
      guest.cpus.insert(cpus.begin(), cpus.end());
    } catch (const Error&) {  // "^3", or no list at all: where it is pinned stays unknown
      continue;
    }
  }
}

void add_devices(GuestDomain& guest, pugi::xml_node devices) {
  for (auto device : devices.children("hostdev")) {
    const auto address = device.child("source").child("address");
    if (std::string_view(device.attribute("type").value()) != "pci" ||
        guest.devices.size() == most_domain_values) {
      continue;
    }
    guest.devices.push_back(
        fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain_number(address.attribute("domain")),
                    domain_number(address.attribute("bus")), domain_number(address.attribute("slot")),
                    domain_number(address.attribute("function"))));
  }
  for (auto controller : devices.children("controller")) {
    guest.expanders += std::string_view(controller.attribute("model").value()) == "pcie-expander-bus" ? 1 : 0;
  }
  for (auto nic : devices.children("interface")) {
    const std::string_view model = nic.child("model").attribute("type").value();
    const bool is_emulated = !model.empty() && !model.starts_with("virtio");
    if (is_emulated && guest.emulated_nics.size() < most_domain_values) {
      guest.emulated_nics.insert(domain_text(model.data()));
    }
  }
  guest.has_iommu = !devices.child("iommu").empty() &&
                    std::string_view(devices.child("iommu").attribute("model").value()) != "virtio";
}

}  // namespace

std::optional<GuestDomain> guest_domain_of(std::string_view xml) {
  pugi::xml_document document;
  if (xml.size() > most_domain_bytes ||
      !document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) {
    return std::nullopt;
  }
  const auto domain = document.child("domain");
  if (!domain || !domain.child("devices")) { return std::nullopt; }
  GuestDomain guest;
  guest.name = domain_text(domain.child_value("name"));
  guest.type = domain_text(domain.attribute("type").value());
  guest.machine = domain_text(domain.child("os").child("type").attribute("machine").value());
  const auto cpu = domain.child("cpu");
  guest.cpu_mode = domain_text(cpu.attribute("mode").value());
  if (guest.cpu_mode.empty() && cpu.child("model")) { guest.cpu_mode = "custom"; }
  guest.cpu_model = domain_text(cpu.child_value("model"));
  const std::string_view address_bits = cpu.child("maxphysaddr").attribute("mode").value();
  guest.has_host_address_bits =
      address_bits == "passthrough" || (address_bits.empty() && guest.cpu_mode.starts_with("host-"));
  guest.vcpus = static_cast<std::size_t>(
      std::max<std::int64_t>(parse_integer(trim(domain.child_value("vcpu"))).value_or(0), 0));
  guest.has_hugepages = !domain.child("memoryBacking").child("hugepages").empty();
  for (auto cell : cpu.child("numa").children("cell")) { guest.cells += cell.empty() ? 0 : 1; }
  add_pins(guest, domain.child("cputune"));
  add_devices(guest, domain.child("devices"));
  return guest;
}

namespace {

constexpr std::size_t most_columns = 128;      // of one machine
constexpr std::size_t most_column_bytes = 32;  // "mlx5_bond_0"

/// nvidia-smi underlines the head of the matrix on terminals: "\x1b[4mGPU0\x1b[0m".
std::string without_styles(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i = std::min(line.find('m', i), line.size() - 1);
    } else {
      plain += line[i];
    }
  }
  return plain;
}

bool is_gpu_name(std::string_view name) {
  return name.starts_with("GPU") && parse_integer(name.substr(3)).has_value();
}

bool is_column_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !name.empty() && name.size() <= most_column_bytes && std::ranges::all_of(name, is_plain);
}

}  // namespace

std::string TopoMatrix::way(const std::string& from, const std::string& to) const {
  const auto found = ways.find({from, to});
  return found == ways.end() ? "" : found->second;
}

int nvlinks_of(std::string_view way) {
  const auto links = way.starts_with("NV") ? parse_integer(way.substr(2)) : std::nullopt;
  return links && *links > 0 && *links < 1000 ? static_cast<int>(*links) : 0;
}

std::optional<int> distance_of(std::string_view way) {
  constexpr std::array<std::string_view, 5> words{"PIX", "PXB", "PHB", "NODE", "SYS"};
  if (nvlinks_of(way) > 0) { return 0; }
  const auto* const found = std::ranges::find(words, way);
  return found == words.end() ? std::nullopt : std::optional(static_cast<int>(found - words.begin()) + 1);
}

bool TopoReader::take(std::string_view line) {
  const auto plain = without_styles(line);
  const auto words = words_of(plain);
  if (words.size() > 1 && is_gpu_name(words[0]) &&
      (is_gpu_name(words[1]) || words[1].find("CPU") == 0 || is_column_name(words[1])) &&
      !distance_of(words[1]) && words[1] != "X") {
    if (!columns_.empty()) { return false; }  // of a second matrix nothing is known
    for (const auto word : words) {
      if (word == "CPU" || columns_.size() == most_columns || !is_column_name(word)) { break; }
      columns_.emplace_back(word);
    }
    says_numa_ = plain.find("NUMA Affinity") != std::string::npos;
    return true;
  }
  if (columns_.empty() || words.size() <= columns_.size() || !contains(columns_, std::string(words[0]))) {
    return false;
  }
  const std::string name(words[0]);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (words[i + 1] != "X" && !distance_of(words[i + 1])) { return false; }
    if (words[i + 1] != "X") { matrix_.ways[{name, columns_[i]}] = words[i + 1]; }
  }
  add_once(is_gpu_name(name) ? matrix_.gpus : matrix_.adapters, name);
  const auto numa = columns_.size() + 2;  // behind the cores
  if (is_gpu_name(name) && says_numa_ && words.size() > numa) {
    const bool is_number = parse_integer(words[numa]).has_value();
    matrix_.numa[name] = is_number ? std::string(words[numa]) : "N/A";
  }
  return true;
}

std::optional<TopoMatrix> TopoReader::finish() {
  return matrix_.gpus.empty() ? std::nullopt : std::optional(matrix_);
}

}  // namespace virtrain::results
