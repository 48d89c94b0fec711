#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

// A user's own domain XML that VMs are made from. It is read from an allow list: whatever could name a file,
// a device or a program of the host is refused by its name and position, for libvirt does it as root.
namespace virtrain::vmctl {

/// Bytes of a template as its user wrote it, and as it travels.
inline constexpr std::size_t most_template_file_bytes = 64 << 10, most_template_bytes = 4096;

/// Sizes of the VM with which the template must agree.
struct TemplateSize {
  std::int64_t vcpus = 0;
  std::uint64_t memory_bytes = 0;
};

/// The template without what virtrain replaces (name, uuid, metadata, sizes), in one line. Throws
/// Error(bad_input) with "line:column: why" for whatever is in the way.
std::string read_domain_template(const std::string& xml, const TemplateSize& size);

/// The sizes that a domain XML says in <vcpu> and <memory>, for a scenario that leaves them out; 0: it does
/// not say one. Throws Error(bad_input) with "line:column: why" for what is not XML, or says no number that
/// the guest's key takes.
TemplateSize size_of_template(const std::string& xml);

/// The mode of its <cpu>, such as "host-passthrough", empty where that has none; nothing without a <cpu>.
std::optional<std::string> cpu_mode_of_template(const std::string& text);

/// Whether it is empty, or as read_domain_template() returns it.
bool is_domain_template(const std::string& text);

}  // namespace virtrain::vmctl
