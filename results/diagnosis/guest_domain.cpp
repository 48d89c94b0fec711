#include "results/diagnosis/guest_domain.h"

#include <fmt/format.h>
#include <pugixml.hpp>

#include <algorithm>
#include <charconv>

#include "common/error.h"
#include "common/text/cpu_list.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
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

}  // namespace virtrain::results
