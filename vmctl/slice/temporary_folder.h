#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "vmctl/process/child.h"

namespace virtrain::vmctl {

/// Where a slice without namespaces keeps temporary files, beside those of all users of the host: a name that
/// nobody can foresee. In memory (/dev/shm) if possible, because mpirun's ranks share theirs through files
/// there; else below `otherwise`.
std::string unforeseen_folder(const std::filesystem::path& otherwise, const std::string& node);

/// "vt-7f3a2b-1" of the name of such a folder; nothing of other names.
std::optional<std::string> slice_of_unforeseen(const std::string& name);

/// Makes a folder in one of ours for that user alone. Throws Error where anything has that name.
void make_folder_of(const std::string& folder, const Identity& user);

}  // namespace virtrain::vmctl
