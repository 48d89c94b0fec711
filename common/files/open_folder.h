#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "common/files/unique_fd.h"

namespace virtrain {

/// Whether what this user owns is as good as ours: root's, ours, or in a user namespace, where root of the
/// host has no number, that of whoever owns "/" (and, there, of all users who have none).
bool is_trusted_owner(uid_t owner);

/// Whose it is; root where it is not there.
uid_t folder_owner(const std::filesystem::path& folder);

/// Throws Error(host_unable) of this operation where the path or a folder on the way is a link of somebody
/// else's, who could turn it elsewhere. What is not there is fine.
void refuse_links_of_others(const std::filesystem::path& path, const std::string& operation);

/// Opens a folder one part of its path after the other, so that nobody can turn the way meanwhile. A link is
/// followed if it is ours or root's and in a folder that is; one of somebody else's, who could turn it
/// elsewhere, is Error(host_unable) of this operation. With `make`, missing parts are made, of this mode less
/// the umask. What else fails is Error(io). The descriptor is for the *at() calls only (O_PATH).
UniqueFd open_folder(const std::filesystem::path& path, const std::string& operation,
                     std::optional<mode_t> make = std::nullopt);

/// Whether the last part of a path may be a link, which then is followed by the rule of open_folder().
enum class LastLink { stays, is_followed };

/// A file's folder, open, and its name there: what the name leads to is looked at, made and replaced through
/// them.
struct FilePlace {
  /// Throws as open_folder() does, and where the path has no file's name at its end.
  FilePlace(const std::filesystem::path& path, const std::string& operation, LastLink last = LastLink::stays,
            std::optional<mode_t> make = std::nullopt);
  /// For calls that take paths: leads to the same folder for as long as this lives.
  std::filesystem::path path() const;

  UniqueFd folder;
  std::string name;
};

/// Whether other users can exchange what is in the folder: it is theirs, or they may write there and it is
/// not sticky.
bool others_may_exchange_in(int folder);

}  // namespace virtrain
