#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace virtrain {

/// Whether what this user owns is as good as ours: root's, ours, or in a user namespace, where root of the
/// host has no number, that of whoever owns "/" (and, there, of all users who have none).
bool is_trusted_owner(uid_t owner);

/// Whose it is; root where it is not there.
uid_t folder_owner(const std::filesystem::path& folder);

/// Throws Error(host_unable) of this operation where the path or a folder on the way is a link of somebody
/// else's, who could turn it elsewhere. What is not there is fine.
void refuse_links_of_others(const std::filesystem::path& path, const std::string& operation);

}  // namespace virtrain
