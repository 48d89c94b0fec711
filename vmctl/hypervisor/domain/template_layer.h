#pragma once

#include <pugixml.hpp>

#include <string>

namespace virtrain::vmctl {

/// Puts a user's template (see vmctl/api/domain_template.h) over the XML of a VM. Throws Error(bad_input) for
/// a text that is none.
void lay_template(pugi::xml_node domain, const std::string& text);

}  // namespace virtrain::vmctl
