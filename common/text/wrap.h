#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace virtrain {

/// Columns that a text takes on a terminal: its code points.
std::size_t text_width(std::string_view text);

/// The lines of one paragraph, each of at most so many columns, broken at blanks. A word that is longer stays
/// whole.
std::vector<std::string> wrap(std::string_view text, std::size_t columns);

/// As wrap(), but a longer word is broken as well: behind its last blank or - _ . / @ + = : , that fits, or
/// else where the line ends.
std::vector<std::string> wrap_within(std::string_view text, std::size_t columns);

/// One paragraph on a screen of so many columns (0: no screen, one line) beside something that takes the
/// first `indent` of them: blanks stand there in each further line. Without a newline at its end.
std::string hang(std::string_view text, std::size_t columns, std::size_t indent = 0);

/// A name in at most so many columns: its first and its last words whole, "…" for those between, or the first
/// one alone. Words end behind blanks and - _ . / @ + = : ,. Only a single word that is too long is cut.
std::string abbreviated(const std::string& name, std::size_t columns);

}  // namespace virtrain
