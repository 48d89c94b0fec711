#include "results/diagnosis/pci_listing.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>

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

}  // namespace virtrain::results
