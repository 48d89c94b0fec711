#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "harness/scenario/decode/described.h"
#include "harness/scenario/decode/sections.h"
#include "vmctl/api/domain_template.h"

namespace virtrain::harness {
namespace {

/// "50%" of the vCPUs, or "0.5 cores"; in cores.
std::optional<double> parse_cpu_limit(std::string_view text, std::int64_t vcpus) {
  for (const std::string_view unit : {" cores", " core"}) {
    if (text.ends_with(unit)) { return parse_number(text.substr(0, text.size() - unit.size())); }
  }
  if (!text.ends_with('%')) { return std::nullopt; }
  const auto share = parse_share(text);
  return share ? std::optional(*share * static_cast<double>(vcpus)) : std::nullopt;
}

/// Replaces the path by what the file has.
void read_template(MapReader& in, Guest& guest) {
  constexpr const char* key = "template";
  const auto& scenario_file = in.diagnostics().file_name();
  std::filesystem::path path(guest.domain_template);
  if (path.is_relative()) { path = std::filesystem::path(scenario_file).parent_path() / path; }
  guest.domain_template.clear();
  const auto text = virtrain::read_file(path, vmctl::most_template_file_bytes);
  if (!text) {
    in.refuse(key, "template: {} cannot be read, or has more than {} bytes", printable(path.string()),
              vmctl::most_template_file_bytes);
    return;
  }
  try {
    const auto size = vmctl::size_of_template(*text);
    if (!in.has("vcpus")) { guest.vcpus = size.vcpus; }
    if (!in.has("memory")) { guest.memory_bytes = size.memory_bytes; }
    const char* const lacking = guest.vcpus == 0          ? "guest.vcpus is left out, and it has no <vcpu>"
                                : guest.memory_bytes == 0 ? "guest.memory is left out, and it has no <memory>"
                                                          : nullptr;
    if (lacking != nullptr) {
      guest.vcpus = std::max<std::int64_t>(1, guest.vcpus);
      in.refuse(key, "template: {}: {} (write one of them)", printable(path.string()), lacking);
      return;
    }
    guest.domain_template = vmctl::read_domain_template(*text, {guest.vcpus, guest.memory_bytes});
  } catch (const Error& error) {
    in.refuse(key, "template: {}:{}", printable(path.string()), error.message());
    return;
  }
  if (guest.memory_encryption != vmctl::MemoryEncryption::none) {
    in.refuse("memory_encryption",
              "memory_encryption and template both say what the processor is like (remove one)");
  }
  if (vmctl::cpu_mode_of_template(guest.domain_template) && guest.cpu_model != vmctl::host_cpu_model) {
    in.refuse("cpu_model", "cpu_model: the template has a <cpu> (remove one of them)");
  }
}

}  // namespace

vmctl::NodeLimits decode_limits(const Field& field, const vmctl::NodeLimits& base, std::int64_t vcpus,
                                Diagnostics& diagnostics) {
  auto limits = base;
  MapReader in(field, "limits", diagnostics);
  constexpr auto of_cpu = property_of(&vmctl::NodeLimits::cpu_cores);
  About cpu = in.describes() ? about(of_cpu) : About{.text = of_cpu.text};
  cpu.pattern = "^[0-9]+(\\.[0-9]+)?(%| cores?)$";
  if (const auto text = in.text("cpu", 64, cpu)) {
    constexpr double least_cores = 0.01;  // the kernel's least quota
    const auto cores = parse_cpu_limit(*text, vcpus);
    limits.cpu_cores = cores;
    if (!cores || *cores < least_cores || *cores > static_cast<double>(vcpus)) {
      in.refuse("cpu",
                "cpu: '{}' is not allowed (allowed: a share of the node's vCPUs such as 50%, or cores such "
                "as 0.5 cores; at least 0.01 cores and at most {} {})",
                excerpt(*text), vcpus, vcpus == 1 ? "core" : "cores");
    }
  }
  read_fields(in, limits);
  in.finish();
  return limits;
}

Guest decode_guest(const Field& field, Diagnostics& diagnostics) {
  Guest guest;
  MapReader in(field, "guest", diagnostics);
  // A template may say sizes that are left out here.
  const bool has_sizes = in.describes() || !in.has("template");
  read_fields(
      in, guest,
      [](Property& is) {
        // The file's content has to fit, and here is its path.
        if (std::string_view(is.key) == "template") { is.fits = nullptr; }
        return true;
      },
      has_sizes);
  if (!guest.domain_template.empty()) { read_template(in, guest); }
  if (guest.smt != vmctl::Smt::any && guest.pinning == vmctl::Pinning::none) {
    in.refuse("smt", "smt: {} has no meaning without pinning (allowed with pinning: cores, numa)",
              to_string(guest.smt));
  }
  if (guest.emulator_threads == vmctl::EmulatorThreads::on_vcpus && guest.pinning == vmctl::Pinning::none) {
    in.refuse(
        "emulator_threads",
        "emulator_threads: on_vcpus has no meaning without pinning (allowed with pinning: cores, numa)");
  }
  if (const auto limits = in.child(
          "limits", {.text = "What each node may use at most, VM and slice alike", .absent = "no limits"})) {
    guest.limits = decode_limits(*limits, guest.limits, guest.vcpus, diagnostics);
  }
  in.finish();
  if (field.describes() && field.schema->contains("required")) {  // an arm's guest says differences alone
    auto& schema = *field.schema;
    schema["anyOf"] = {{{"required", schema["required"]}}, {{"required", {"template"}}}};
    schema.erase("required");
  }
  return guest;
}

}  // namespace virtrain::harness
