#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace virtrain::harness {

// Files that a schedule reads again each night run with the rights of whoever added it, so nobody else may be
// able to change them: the rule of cron and ssh.

/// Error(host_unable), with who could change it and what to do, unless `file` and every folder above it
/// belong to root or to us, and group and others cannot write to them. A folder of everybody's with a sticky
/// bit is fine. Links are followed, and the folders they lie in looked at.
void require_only_ours(const std::filesystem::path& file);
/// For root: require_only_ours of a database, or of the nearest folder where it will be. Other users may
/// share theirs.
void require_database_place(const std::filesystem::path& database);
/// Also that group and others cannot read it: it holds a secret.
void require_secret(const std::filesystem::path& file);
/// require_only_ours for each absolute path in a shell command, of files and of folders; also where nothing
/// is there yet and others could make it. What sh makes only when it runs, of variables and patterns, is not
/// seen. Error(usage), which names the option that took the command, for a relative path: a timer starts
/// commands in another folder.
void require_only_ours_in(const std::string& command, const std::string& option);

// Paths in a shell command, without running it. Pure.

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
