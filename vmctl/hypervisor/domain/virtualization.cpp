#include "vmctl/hypervisor/domain/virtualization.h"

namespace virtrain::vmctl {

const char* to_string(Virtualization virtualization) {
  switch (virtualization) {
    case Virtualization::none:
      return "none";
    case Virtualization::kvm:
      return "kvm";
    case Virtualization::kvm_nested:
      return "kvm_nested";
    case Virtualization::kvm_on_emulated:
      return "kvm_on_emulated";
    case Virtualization::tcg:
      return "tcg";
  }
  return "unknown";
}

std::optional<Virtualization> parse_virtualization(std::string_view word) {
  for (const auto value : {Virtualization::none, Virtualization::kvm, Virtualization::kvm_nested,
                           Virtualization::kvm_on_emulated, Virtualization::tcg}) {
    if (word == to_string(value)) { return value; }
  }
  return std::nullopt;
}

bool uses_kvm(Virtualization virtualization) {
  return virtualization == Virtualization::kvm || virtualization == Virtualization::kvm_nested ||
         virtualization == Virtualization::kvm_on_emulated;
}

}  // namespace virtrain::vmctl
