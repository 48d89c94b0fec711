#pragma once

#include <string>
#include <string_view>
#include <vector>

// Paths in a shell command, without running it. Pure.
namespace virtrain::harness {

/// The words as sh would split them, with quotes and backslashes taken away. Operators and redirections end a
/// word, as do parentheses and backquotes; variables and patterns stay as they are written. Without the files
/// that ">" and ">>" write to: what is in them changes nothing that runs.
std::vector<std::string> shell_words(std::string_view command);

/// Every absolute path that may be in a word: the word itself, behind an option's letter or "=", in a list,
/// in a command within quotes; not those of other hosts ("web:/x"). Where a path may end earlier or later,
/// both.
std::vector<std::string> absolute_paths_in(std::string_view word);

/// Whether the path has nothing in it where a path could end.
bool is_plain_path(std::string_view path);

}  // namespace virtrain::harness
