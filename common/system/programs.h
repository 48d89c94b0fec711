#pragma once

#include <filesystem>
#include <string_view>

namespace virtrain {

/// A program that ships with virtrain: beside this executable, else in ../libexec/virtrain. Throws
/// Error(not_found).
std::filesystem::path sibling_program(std::string_view name);

}  // namespace virtrain
