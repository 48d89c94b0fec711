#pragma once

#include <string_view>

#include "common/enum_text.h"

/// The kinds of lease, in the order in which what is left of them is removed: what uses something goes before
/// it. Each is a line here and a handler in a file of its own (vmctl/resources).
#define VIRTRAIN_EFFECT_KINDS(KIND) \
  KIND(process)                     \
  KIND(slice)                       \
  KIND(domain)                      \
  KIND(network_function)            \
  KIND(vxlan)                       \
  KIND(network)                     \
  KIND(veth)                        \
  KIND(netns)                       \
  KIND(bridge)                      \
  KIND(cgroup)                      \
  KIND(resctrl)                     \
  KIND(loop)                        \
  KIND(file)                        \
  KIND(mdev)                        \
  KIND(vgpu_type)                   \
  KIND(binding)                     \
  KIND(guids)                       \
  KIND(vgpu_scheduler)              \
  KIND(virtual_functions)           \
  KIND(device_settings)             \
  KIND(service)                     \
  KIND(kvm_device)

namespace virtrain::vmctl {

using virtrain::to_string;

/// Their names are the words of the journal and of `virtrain clean`.
#define VIRTRAIN_KIND(word) word,
VIRTRAIN_ENUM_CLASS(EffectKind, VIRTRAIN_EFFECT_KINDS(VIRTRAIN_KIND))
#undef VIRTRAIN_KIND

/// Throws Error(bad_input) for a word that is none: nothing may be removed for what it does not say.
EffectKind parse_effect_kind(std::string_view word);

}  // namespace virtrain::vmctl
