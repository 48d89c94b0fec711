#pragma once

#include <string>

#include "harness/cli/manual/verb.h"

namespace virtrain::harness::manual {

/// "virtrain-schedule-add"
std::string page_name(const Verb& verb);
/// The page of section 1 as man(7) has it; `program` is the verb at the top, to which every page refers.
std::string man_page(const Verb& verb, const Verb& program, const std::string& version);

}  // namespace virtrain::harness::manual
