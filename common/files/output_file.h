#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

namespace virtrain {

// The one way to write what a user has named. Its folder is opened once, by the rule of open_folder(), and
// the file is made in it under a name that nobody can foresee.

/// Whether write_whole() writes to what is there. Throws where it refuses it.
bool is_written_in_place(const std::filesystem::path& file);

/// Calls `write` with the stream of a temporary file beside `file`, which takes the place of `file` once all
/// of it is on disk, with the permissions of the file that was there; a failure leaves `file` as it was. A
/// link of that name is replaced, not followed. A descriptor that was given (/dev/stdout, /dev/fd/3), and a
/// pipe or character device, ours or root's, is written to; what is neither those nor a file is refused.
void write_whole(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write);

/// The same with the temporary file's descriptor, and for files alone.
void replace_file(const std::filesystem::path& file, const std::function<void(int)>& write);

}  // namespace virtrain
