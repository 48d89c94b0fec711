#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/unique_fd.h"

namespace virtrain {

enum class Readable { regular_file, regular_file_or_pipe };

// The one way to read what somebody else may have made: tests/architecture refuses std::ifstream elsewhere.

/// How long a pipe that has a name may have nothing to say.
inline constexpr std::chrono::seconds longest_silence{10};

/// Opens for reading what `path` leads to if it is of that kind. What else is there is not opened, for that
/// alone may start a device or wait. Of a pipe that has a name the first bytes are waited for, and no longer
/// than `silence`; one that the caller gave (/dev/stdin, /dev/fd/63) is taken as it is. None: errno says why
/// not, EINVAL that it is of another kind (EISDIR: a folder), ETIMEDOUT that nobody writes.
UniqueFd open_to_read(const std::filesystem::path& path, Readable kind = Readable::regular_file,
                      std::chrono::milliseconds silence = longest_silence);

/// A stream of a regular file; not open where open_to_read() opens nothing.
std::ifstream open_stream(const std::filesystem::path& path);

/// Hands over all that comes from an open file until its end, or until `take` returns false. False: reading
/// failed, and errno says why.
bool read_pieces(int file, const std::function<bool(std::string_view)>& take);

/// Most that is read of a file as text, unless said otherwise.
inline constexpr std::size_t most_text_bytes = std::size_t{16} << 20;
/// The whole of a regular file; nothing if it cannot be read, is of another kind (open_to_read()) or has more
/// than `most_bytes` (errno EFBIG). Works on /proc and /sys, whose sizes read 0.
std::optional<std::string> read_file(const std::filesystem::path& path,
                                     std::size_t most_bytes = most_text_bytes);
/// Reads an open file until its end, `most_bytes` at most; nothing if reading fails.
std::optional<std::string> read_at_most(int file, std::size_t most_bytes);
/// Its end, of so many bytes at most; nothing if it cannot be read. For logs that somebody else makes long.
std::optional<std::string> read_tail(const std::filesystem::path& path, std::size_t most_bytes);
/// As read_file, trimmed and of 1 MiB at most; for one-value files under /proc and /sys.
std::optional<std::string> read_value(const std::filesystem::path& path);
/// Last part of a link's target; empty if it is no link.
std::string link_name(const std::filesystem::path& link);
/// Entries of a folder, in order; nothing if it cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);
/// Their names alone.
std::vector<std::string> entry_names(const std::filesystem::path& folder);

}  // namespace virtrain
