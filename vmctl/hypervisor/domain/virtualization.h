#pragma once

#include <optional>
#include <string_view>

namespace virtrain::vmctl {

/// What stood between a node and the hardware (design: "What was virtual is said").
enum class Virtualization { none, kvm, kvm_nested, kvm_on_emulated, tcg };

/// The word of the database and the report, for example "kvm_nested".
const char* to_string(Virtualization virtualization);
std::optional<Virtualization> parse_virtualization(std::string_view word);
/// Whether libvirt's domain type is "kvm" (otherwise "qemu", TCG).
bool uses_kvm(Virtualization virtualization);

}  // namespace virtrain::vmctl
