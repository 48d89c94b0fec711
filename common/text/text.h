#pragma once

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
/// One word of a command as sh reads it, in quotes where it needs them.
std::string shell_word(const std::string& text);
/// "value" of the first line "name : value", as in /proc/meminfo and /proc/cpuinfo; empty if there is none.
std::string line_value(std::string_view text, std::string_view name);

/// The word of `known` nearest to `word`, if it is near enough to be a typing error.
std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& known);

/// Whether it is an address such as 192.0.2.7.
bool is_ipv4_address(const std::string& text);

}  // namespace virtrain
