#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace virtrain {

/// Parts between separators; n separators give n+1 parts, empty ones too.
std::vector<std::string> split(std::string_view text, char separator);
/// Without blanks, tabs and line ends at both ends.
std::string_view trim(std::string_view text);
/// ASCII letters in small.
std::string lower(std::string text);
/// Words between blanks and tabs; views into the text.
std::vector<std::string_view> words_of(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// "value" of the first line "name : value", as in /proc/meminfo and /proc/cpuinfo; empty if there is none.
std::string line_value(std::string_view text, std::string_view name);

/// Most that is read of a file as text, unless said otherwise.
inline constexpr std::size_t most_text_bytes = std::size_t{16} << 20;
/// The whole of a regular file; nothing if it cannot be read, is of another kind (open_to_read()) or has more
/// than `most_bytes` (errno EFBIG). Works on /proc and /sys, whose sizes read 0.
std::optional<std::string> read_file(const std::filesystem::path& path,
                                     std::size_t most_bytes = most_text_bytes);
/// What comes from an open file until its end, `most_bytes` at most; nothing if reading fails.
std::optional<std::string> read_at_most(int file, std::size_t most_bytes);
/// Its end, of so many bytes at most; nothing if it cannot be read. For logs that somebody else makes long.
std::optional<std::string> read_tail(const std::filesystem::path& path, std::size_t most_bytes);
/// As read_file, trimmed and of 1 MiB at most; for one-value files under /proc and /sys.
std::optional<std::string> read_value(const std::filesystem::path& path);
/// Last part of a link's target; empty if it is no link.
std::string link_name(const std::filesystem::path& link);
/// What is in a folder, in order; nothing if it cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);
/// Their names alone.
std::vector<std::string> entry_names(const std::filesystem::path& folder);
/// Writes and closes, whole or not at all by rename. With exactly this mode, and nobody else's to read before
/// it has it; without one, 0644 less the umask. Throws Error.
void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           std::optional<mode_t> mode = std::nullopt);

/// Longest text that is shown or kept of what somebody else wrote, unless said otherwise.
inline constexpr std::size_t longest_shown_bytes = std::size_t{64} << 10;
/// The gate for text that somebody else wrote: invalid UTF-8 and what is_showable() refuses become U+FFFD,
/// one for each code point; what is longer ends with how much was left out. Tab and newline stay.
std::string printable(std::string_view bytes, std::size_t most_bytes = longest_shown_bytes);
/// As printable, in one line and short: for a name or value quoted in a message.
std::string excerpt(std::string_view bytes, std::size_t most_bytes = 200);
/// Position of the first byte that is no UTF-8 (RFC 3629); npos if all are.
std::size_t find_invalid_utf8(std::string_view text);
/// The word of `known` nearest to `word`, if it is near enough to be a typing error.
std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& known);

/// Linux CPU list syntax, "0-3,8" as {0,1,2,3,8}, of CPUs below 65,536, each once; throws Error(bad_input) on
/// other text.
std::vector<int> parse_cpu_list(std::string_view text);
/// {0,1,2,3,8} as "0-3,8".
std::string format_cpu_list(const std::vector<int>& cpus);

}  // namespace virtrain
