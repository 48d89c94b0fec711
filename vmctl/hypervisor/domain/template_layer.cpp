#include "vmctl/hypervisor/domain/template_layer.h"

#include <initializer_list>
#include <string_view>

#include "common/error.h"
#include "vmctl/api/domain_template.h"

namespace virtrain::vmctl {
namespace {

/// The child of that name, made where there is none.
pugi::xml_node child_of(pugi::xml_node parent, const char* name) {
  const auto child = parent.child(name);
  return child ? child : parent.append_child(name);
}

/// In place of the one of that name, and of that type where it has one.
void replace_child(pugi::xml_node parent, pugi::xml_node with) {
  for (auto old = parent.child(with.name()); old;) {
    const auto next = old.next_sibling(with.name());
    if (std::string_view(old.attribute("type").value()) == with.attribute("type").value()) {
      parent.remove_child(old);
    }
    old = next;
  }
  parent.append_copy(with);
}

/// The NUMA cells are the plan's, and so is the topology where the template has none.
void lay_cpu(pugi::xml_node domain, pugi::xml_node wanted) {
  const auto ours = domain.child("cpu");
  auto cpu = domain.insert_copy_after(wanted, ours);
  if (!cpu.child("topology")) { cpu.append_copy(ours.child("topology")); }
  if (const auto numa = ours.child("numa")) { cpu.append_copy(numa); }
  domain.remove_child(ours);
}

void lay_machine(pugi::xml_node domain, pugi::xml_node wanted) {
  const auto machine = wanted.child("type").attribute("machine");
  if (machine) { domain.child("os").child("type").attribute("machine").set_value(machine.value()); }
}

}  // namespace

void lay_template(pugi::xml_node domain, const std::string& text) {
  if (!is_domain_template(text)) {
    throw Error("make a VM from a template", ErrorCode::bad_input, "the text is not one");
  }
  pugi::xml_document document;
  document.load_buffer(text.data(), text.size());
  for (const auto& wanted : document.document_element().children()) {
    const std::string_view name = wanted.name();
    if (name == "cpu") {
      lay_cpu(domain, wanted);
    } else if (name == "os") {
      lay_machine(domain, wanted);
    } else if (name == "features" || name == "memoryBacking" || name == "devices") {
      auto ours = child_of(domain, wanted.name());
      for (const auto& child : wanted.children()) {
        // libvirt gives a VM one of each but of input devices.
        if (std::string_view(child.name()) == "input") {
          ours.append_copy(child);
        } else if (std::string_view(child.name()) == "video" ||
                   std::string_view(child.name()) == "memballoon") {
          ours.remove_child(child.name());
          ours.append_copy(child);
        } else {
          replace_child(ours, child);
        }
      }
    } else {
      domain.append_copy(wanted);
    }
  }
}

}  // namespace virtrain::vmctl
