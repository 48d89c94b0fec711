#pragma once

#include <string>

#include "vmctl/api/domain_template.h"

namespace virtrain::vmctl {

/// The sizes that a domain XML says in <vcpu> and <memory>, for a scenario that leaves them out; 0: it does
/// not say one. Throws Error(bad_input) with "line:column: why" for what is not XML, or says no number.
TemplateSize size_of_template(const std::string& xml);

}  // namespace virtrain::vmctl
