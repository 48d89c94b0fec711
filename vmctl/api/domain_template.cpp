#include "vmctl/api/domain_template.h"

#include <fmt/format.h>
#include <pugixml.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/api/node.h"

namespace virtrain::vmctl {
namespace {

/// Elements that a template may have, by their path below <domain>, with the attributes that each may have.
struct AllowedElement {
  std::string_view path, attributes;
  bool has_text = false;
};
constexpr AllowedElement allowed[] = {
    {"vcpu", "placement", true},
    {"memory", "unit", true},
    {"currentMemory", "unit", true},
    {"memoryBacking", ""},
    {"memoryBacking/nosharepages", ""},
    {"memoryBacking/source", "type"},
    {"memoryBacking/access", "mode"},
    {"memoryBacking/allocation", "mode threads"},
    {"os", ""},
    {"os/type", "arch machine", true},
    {"features", ""},
    {"features/acpi", ""},
    {"features/apic", "eoi"},
    {"features/pae", ""},
    {"features/pmu", "state"},
    {"features/vmport", "state"},
    {"features/smm", "state"},
    {"features/pvspinlock", "state"},
    {"features/ioapic", "driver"},
    {"features/kvm", ""},
    {"features/kvm/hidden", "state"},
    {"features/kvm/hint-dedicated", "state"},
    {"features/kvm/poll-control", "state"},
    {"features/kvm/pv-ipi", "state"},
    {"features/hyperv", "mode"},
    {"features/hyperv/relaxed", "state"},
    {"features/hyperv/vapic", "state"},
    {"features/hyperv/spinlocks", "state retries"},
    {"features/hyperv/vpindex", "state"},
    {"features/hyperv/runtime", "state"},
    {"features/hyperv/synic", "state"},
    {"features/hyperv/stimer", "state"},
    {"features/hyperv/stimer/direct", "state"},
    {"features/hyperv/reset", "state"},
    {"features/hyperv/vendor_id", "state value"},
    {"features/hyperv/frequencies", "state"},
    {"features/hyperv/reenlightenment", "state"},
    {"features/hyperv/tlbflush", "state"},
    {"features/hyperv/ipi", "state"},
    {"features/hyperv/evmcs", "state"},
    {"features/hyperv/avic", "state"},
    {"cpu", "mode match check migratable"},
    {"cpu/model", "fallback vendor_id", true},
    {"cpu/vendor", "", true},
    {"cpu/topology", "sockets dies clusters cores threads"},
    {"cpu/cache", "level mode"},
    {"cpu/maxphysaddr", "mode bits limit"},
    {"cpu/feature", "policy name"},
    {"clock", "offset timezone basis"},
    {"clock/timer", "name tickpolicy track frequency mode present"},
    {"clock/timer/catchup", "threshold slew limit"},
    {"pm", ""},
    {"pm/suspend-to-mem", "enabled"},
    {"pm/suspend-to-disk", "enabled"},
    {"devices", ""},
    {"devices/controller", "type index model ports"},
    {"devices/input", "type bus"},
    {"devices/video", ""},
    {"devices/video/model", "type vram heads primary ram vgamem"},
    {"devices/memballoon", "model autodeflate freePageReporting"},
    {"devices/memballoon/stats", "period"},
    {"devices/watchdog", "model action"},
    {"devices/iommu", "model"},
    {"devices/iommu/driver", "intremap caching_mode eim iotlb aw_bits"},
    {"devices/panic", "model"},
};

/// Elements that virtrain makes itself, so that the template's are left out.
constexpr std::string_view replaced[] = {"name",     "uuid",      "title",       "description",
                                         "metadata", "on_reboot", "on_poweroff", "on_crash"};

/// Elements that people have in their XML, and why a template may not.
constexpr std::pair<std::string_view, std::string_view> hints[] = {
    {"os/boot", "virtrain boots guest.image"},
    {"os/kernel", "virtrain boots guest.image"},
    {"os/initrd", "virtrain boots guest.image"},
    {"os/cmdline", "virtrain boots guest.image"},
    {"os/loader", "it names a file of the host"},
    {"os/nvram", "it names a file of the host"},
    {"memoryBacking/hugepages", "use guest.hugepages, which the plan counts"},
    {"memoryBacking/locked", "it takes memory from the host that no plan counts"},
    {"cputune", "use guest.pinning"},
    {"numatune", "use guest.pinning"},
    {"cpu/numa", "use guest.pinning: numa"},
    {"iothreads", "virtrain gives the VM its disks"},
    {"seclabel", "it changes what QEMU may do on the host"},
    {"launchSecurity", "use guest.memory_encryption"},
    {"qemu:commandline", "it starts QEMU with any option, as the host"},
    {"devices/emulator", "it names a program of the host"},
    {"devices/disk", "virtrain gives the VM its disks (guest.image)"},
    {"devices/filesystem", "it shows a folder of the host"},
    {"devices/interface", "virtrain gives the VM its network (guest.network)"},
    {"devices/hostdev", "use devices, which plans and checks know"},
    {"devices/channel", "virtrain makes the agent's channel"},
    {"devices/serial", "virtrain makes the console"},
    {"devices/console", "virtrain makes the console"},
    {"devices/rng", "virtrain makes one"},
    {"devices/graphics", "it opens a port of the host"},
};

struct Reading {
  const std::string& xml;
  const TemplateSize* size;  ///< null: it has travelled already, without sizes

  [[noreturn]] void refuse(std::ptrdiff_t offset, const std::string& why) const {
    const auto end = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(offset, 0, std::ssize(xml)));
    const auto before = std::string_view(xml).substr(0, end);
    const auto line_begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    throw Error("read a domain template", ErrorCode::bad_input,
                fmt::format("{}:{}: {}", std::ranges::count(before, '\n') + 1, end - line_begin + 1, why));
  }
  [[noreturn]] void refuse(pugi::xml_node node, const std::string& why) const {
    const auto name = excerpt(node.name(), 60);
    refuse(node.offset_debug() - 1, name.empty() ? why : fmt::format("<{}>: {}", name, why));
  }
};

/// Numbers and words, none of which is a path.
bool is_plain_value(std::string_view value) {
  constexpr std::size_t most = 128;
  return value.size() <= most && std::ranges::all_of(value, [](char c) {
           return is_letter(c) || is_digit(c) || std::string_view("._:+- ").find(c) != std::string_view::npos;
         });
}

/// All of an element's own text: comments may stand in it.
std::string text_of(pugi::xml_node node) {
  std::string text;
  for (const auto& child : node.children()) {
    if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata) { text += child.value(); }
  }
  return std::string(trim(text));
}

void check_values(const Reading& in, pugi::xml_node node, const AllowedElement& element) {
  const auto names = words_of(element.attributes);
  for (const auto& attribute : node.attributes()) {
    const std::string_view name = attribute.name();
    if (!std::ranges::any_of(names, [&](const auto& one) { return one == name; })) {
      in.refuse(node,
                fmt::format("a template may not set its attribute '{}' ({})", excerpt(name, 60),
                            names.empty() ? "it has none" : "allowed: " + std::string(element.attributes)));
    }
    if (!is_plain_value(attribute.value())) {
      in.refuse(node, fmt::format("{}='{}' is not a plain word or number", excerpt(name, 60),
                                  excerpt(attribute.value(), 60)));
    }
  }
  const auto text = text_of(node);
  if (!text.empty() && (!element.has_text || !is_plain_value(text))) {
    in.refuse(node, fmt::format("the text '{}' is not allowed in it", excerpt(text, 60)));
  }
}

void require_word(const Reading& in, pugi::xml_node node, const char* attribute,
                  const std::vector<std::string>& words) {
  const auto value = node.attribute(attribute);
  if (!value || std::ranges::find(words, value.value()) != words.end()) { return; }
  in.refuse(node, fmt::format("{}='{}' is not allowed in a template (allowed: {})", attribute,
                              excerpt(value.value(), 60), join(words, ", ")));
}

std::optional<std::uint64_t> bytes_of(pugi::xml_node node) {
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 16> units{{{"", 1024},
                                                                              {"b", 1},
                                                                              {"bytes", 1},
                                                                              {"KB", 1000},
                                                                              {"k", 1024},
                                                                              {"KiB", 1024},
                                                                              {"MB", 1'000'000},
                                                                              {"M", 1 << 20},
                                                                              {"MiB", 1 << 20},
                                                                              {"GB", 1'000'000'000},
                                                                              {"G", 1 << 30},
                                                                              {"GiB", 1 << 30},
                                                                              {"TB", 1'000'000'000'000},
                                                                              {"T", 1ULL << 40},
                                                                              {"TiB", 1ULL << 40},
                                                                              {"K", 1024}}};
  const auto unit = std::ranges::find(units, std::string_view(node.attribute("unit").value()),
                                      &std::pair<std::string_view, std::uint64_t>::first);
  const auto count = parse_integer(text_of(node));
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (unit == units.end() || !count || *count < 0 || *count > most) { return std::nullopt; }
  return static_cast<std::uint64_t>(*count) * unit->second;
}

/// <vcpu>, <memory> and <currentMemory> say the same as the scenario.
void check_sizes(const Reading& in, pugi::xml_node node) {
  const std::string_view name = node.name();
  if (name == "vcpu") {
    require_word(in, node, "placement", {"static"});
    if (in.size != nullptr && parse_integer(text_of(node)) != in.size->vcpus) {
      in.refuse(node, fmt::format("guest.vcpus is {}, and it says '{}' (remove it, or make them equal)",
                                  in.size->vcpus, excerpt(text_of(node), 60)));
    }
  } else if (in.size != nullptr && bytes_of(node) != in.size->memory_bytes) {
    in.refuse(node, fmt::format("guest.memory is {}, and it says '{} {}' (remove it, or make them equal)",
                                format_size(in.size->memory_bytes), excerpt(text_of(node), 60),
                                excerpt(node.attribute("unit").value(), 20)));
  }
}

void check_machine(const Reading& in, pugi::xml_node type) {
  if (text_of(type) != "hvm") { in.refuse(type, "it must be hvm"); }
  require_word(in, type, "arch", {"x86_64"});
  std::string_view machine = type.attribute("machine").value();
  if (machine.starts_with("pc-")) { machine.remove_prefix(3); }
  if (type.attribute("machine") && machine != "q35" && !machine.starts_with("q35-")) {
    in.refuse(type, fmt::format("machine='{}': virtrain's devices need a machine of type q35",
                                excerpt(type.attribute("machine").value(), 60)));
  }
}

void check_cpu_topology(const Reading& in, pugi::xml_node topology) {
  std::int64_t product = 1;
  for (const auto& attribute : topology.attributes()) {
    const auto value = parse_integer(attribute.value());
    constexpr std::int64_t most = 1024;
    if (!value || *value < 1 || *value > most) { in.refuse(topology, "its numbers go from 1 to 1024"); }
    product = std::min(product * *value, most * most);
  }
  if (in.size != nullptr && product != in.size->vcpus) {
    in.refuse(topology, fmt::format("guest.vcpus is {}, and it has {}", in.size->vcpus, product));
  }
}

void check_meaning(const Reading& in, pugi::xml_node node, std::string_view path) {
  if (path == "vcpu" || path == "memory" || path == "currentMemory") { check_sizes(in, node); }
  if (path == "os/type") { check_machine(in, node); }
  if (path == "cpu/topology") { check_cpu_topology(in, node); }
  if (path == "memoryBacking/source") { require_word(in, node, "type", {"anonymous", "memfd"}); }
  // Others have indexes and places that virtrain gives out.
  if (path == "devices/controller") { require_word(in, node, "type", {"usb"}); }
  // The others stop a VM for good, or write its memory to the host's disk.
  if (path == "devices/watchdog") {
    require_word(in, node, "action", {"reset", "shutdown", "poweroff", "none"});
  }
}

void check_element(const Reading& in, pugi::xml_node node, const std::string& path) {
  const auto element = std::ranges::find(allowed, std::string_view(path), &AllowedElement::path);
  if (element == std::end(allowed)) {
    const auto hint =
        std::ranges::find(hints, std::string_view(path), [](const auto& one) { return one.first; });
    in.refuse(node,
              fmt::format("a template may not have it ({})",
                          hint == std::end(hints) ? "docs/attach.md lists what it may have" : hint->second));
  }
  check_values(in, node, *element);
  check_meaning(in, node, path);
  for (const auto& child : node.children()) {
    if (child.type() == pugi::node_element) { check_element(in, child, path + "/" + child.name()); }
  }
}

pugi::xml_document parsed(const std::string& xml, const Reading& in) {
  pugi::xml_document document;
  const auto result = document.load_buffer(xml.data(), xml.size());
  if (!result) { in.refuse(result.offset, fmt::format("it is not XML: {}", result.description())); }
  return document;
}

void check_domain(const Reading& in, pugi::xml_node domain) {
  if (std::string_view(domain.name()) == "domain" && !domain.next_sibling()) { return; }
  in.refuse(domain, "a template is one <domain>, as virsh dumpxml prints it");
}

std::string checked(const std::string& xml, const TemplateSize* size) {
  const Reading in{xml, size};
  if (const auto nul = xml.find('\0'); nul != std::string::npos) {
    in.refuse(static_cast<std::ptrdiff_t>(nul), "it has a zero byte");
  }
  auto document = parsed(xml, in);
  auto domain = document.document_element();
  check_domain(in, domain);
  std::vector<pugi::xml_node> dropped;
  for (const auto& child : domain.children()) {
    const std::string_view name = child.name();
    const bool is_element = child.type() == pugi::node_element;
    if (!is_element && child.type() != pugi::node_comment && !trim(child.value()).empty()) {
      in.refuse(child, "text is not allowed here");
    }
    if (is_element && domain.child(child.name()) != child &&
        std::ranges::find(replaced, name) == std::end(replaced)) {
      in.refuse(child, "it is there twice, and libvirt would take one of them");
    }
    if (is_element && std::ranges::find(replaced, name) == std::end(replaced)) {
      check_element(in, child, std::string(name));
      if (name != "vcpu" && name != "memory" && name != "currentMemory") { continue; }
    }
    dropped.push_back(child);
  }
  for (auto child : dropped) { domain.remove_child(child); }
  while (const auto attribute = domain.first_attribute()) { domain.remove_attribute(attribute); }
  std::ostringstream out;
  domain.print(out, "", pugi::format_raw | pugi::format_no_declaration);
  auto text = std::move(out).str();
  if (text.size() > most_template_bytes) {
    in.refuse(0, fmt::format("without what virtrain replaces it still has {} bytes (allowed: {})",
                             text.size(), most_template_bytes));
  }
  return text;
}

}  // namespace

std::string read_domain_template(const std::string& xml, const TemplateSize& size) {
  return checked(xml, &size);
}

TemplateSize size_of_template(const std::string& xml) {
  const Reading in{xml, nullptr};
  const auto document = parsed(xml, in);
  const auto domain = document.document_element();
  check_domain(in, domain);
  TemplateSize size;
  if (const auto vcpu = domain.child("vcpu")) {
    constexpr auto key = property_of(&GuestSpec::vcpus);
    const auto count = parse_integer(text_of(vcpu));
    if (!count || *count < key.least || *count > key.most) {
      in.refuse(vcpu, fmt::format("guest.{} goes from {} to {}", key.key, key.least, key.most));
    }
    size.vcpus = *count;
  }
  if (const auto memory = domain.child("memory")) {
    constexpr auto key = property_of(&GuestSpec::memory_bytes);
    const auto bytes = bytes_of(memory);
    if (!bytes || std::cmp_less(*bytes, key.least) || std::cmp_greater(*bytes, key.most)) {
      in.refuse(memory,
                fmt::format("guest.{} goes from {} MiB to {} TiB", key.key, key.least >> 20, key.most >> 40));
    }
    size.memory_bytes = *bytes;
  }
  return size;
}

std::optional<std::string> cpu_mode_of_template(const std::string& text) {
  pugi::xml_document document;
  document.load_buffer(text.data(), text.size());
  const auto cpu = document.document_element().child("cpu");
  return cpu ? std::optional<std::string>(cpu.attribute("mode").value()) : std::nullopt;
}

bool is_domain_template(const std::string& text) {
  if (text.empty()) { return true; }
  try {
    return checked(text, nullptr) == text;
  } catch (const Error&) { return false; }
}

}  // namespace virtrain::vmctl
