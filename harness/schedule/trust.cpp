#include "harness/schedule/trust.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/files/open_folder.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

namespace fs = std::filesystem;

struct stat status_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) { throw errno_error("read " + excerpt(path.string()), errno); }
  return status;
}

Error refuse_file(const fs::path& file, const std::string& why) {
  return Error("use " + excerpt(file.string()) + " every night", ErrorCode::host_unable, why);
}

/// `part` is `file` or a folder above it.
void require_ours(const fs::path& file, const fs::path& part) {
  const auto status = status_of(part);
  const auto shown = excerpt(part.string());
  if (!is_trusted_owner(status.st_uid)) {
    throw refuse_file(file, fmt::format("{} belongs to user {}, who could change it; keep it in a "
                                        "folder of your own",
                                        shown, status.st_uid));
  }
  // Who writes to a device or a socket changes nothing that somebody else reads from it.
  const bool shared_safely = (S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0) ||
                             S_ISCHR(status.st_mode) || S_ISSOCK(status.st_mode);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !shared_safely) {
    throw refuse_file(
        file, fmt::format("other users can write to {} and so change it; chmod go-w {}", shown, shown));
  }
}

void require_ours_upwards(const fs::path& file, fs::path part) {
  for (; part.has_relative_path(); part = part.parent_path()) { require_ours(file, part); }
  require_ours(file, part);
}

/// The file, or the nearest folder above it that is there.
fs::path nearest_that_is_there(fs::path file) {
  std::error_code unknown;
  while (file.has_relative_path() && !fs::exists(fs::symlink_status(file, unknown))) {
    file = file.parent_path();
  }
  return file;
}

/// Checks a path that stands in a command: its file may not be there yet, and nobody else may be able to make
/// it meanwhile.
void require_only_ours_named(const fs::path& path) {
  std::error_code no_place;
  const bool is_there = fs::exists(path, no_place);
  if (!is_there && !is_plain_path(path.native())) { return; }
  if (is_there && fs::canonical(path, no_place).empty()) { return; }  // our own open file, as /dev/stdin
  const auto found = nearest_that_is_there(path);
  require_only_ours(found);
  if (!is_there && (status_of(found).st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw refuse_file(path,
                      fmt::format("it is not there, and other users, who can write to {}, could make it "
                                  "first; keep it in a folder of your own",
                                  excerpt(found.string())));
  }
}

}  // namespace

void require_only_ours(const fs::path& file) {
  status_of(file);
  // It may become a line of a unit.
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 127; };
  const auto& name = file.native();
  if (std::ranges::any_of(name, is_control)) {
    throw refuse_file(file, "its path has control characters in it");
  }
  const auto given = fs::absolute(file).lexically_normal();
  refuse_links_of_others(given, "use " + excerpt(file.string()) + " every night");
  require_ours_upwards(file, given.parent_path());
  require_ours_upwards(file, fs::canonical(given));
}

void require_database_place(const fs::path& database) {
  if (::geteuid() == 0) { require_only_ours(nearest_that_is_there(database)); }
}

void require_secret(const fs::path& file) {
  require_only_ours(file);
  if ((status_of(file).st_mode & (S_IRGRP | S_IROTH)) != 0) {
    throw refuse_file(file, "other users can read the secret in it; chmod 600 " + excerpt(file.string()));
  }
}

void require_only_ours_in(const std::string& command, const std::string& option) {
  const auto words = shell_words(command);
  // The command comes after its variables.
  const auto is_assignment = [](const std::string& word) {
    const auto name_end =
        word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return name_end != std::string::npos && name_end > 0 && word[name_end] == '=';
  };
  const auto run = std::ranges::find_if_not(words, is_assignment);
  for (const auto& word : words) {
    const bool is_path = word.find('/') != std::string::npos;
    const bool is_relative = is_path && word.front() != '/' && !is_assignment(word);
    const bool of_a_home = word.front() == '~' && word.find('/') > 1;  // "~eve/x"
    std::error_code ignored;
    if (is_relative && ((run != words.end() && &word == &*run) || of_a_home || fs::exists(word, ignored))) {
      throw Error("read " + option, ErrorCode::usage,
                  excerpt(word) +
                      (word.front() == '$'
                           ? " is where a variable says, and a timer has others; give its whole path"
                           : " is relative, and a timer starts it in another folder; give its whole path"));
    }
    for (const auto& path : absolute_paths_in(word)) { require_only_ours_named(path); }
  }
}

namespace {

constexpr std::string_view word_ends = " \t\n;|&<>()`";
constexpr std::string_view path_ends = " \t\n;|&<>()`'\"=:,@";

std::optional<char> hex_byte(std::string_view digits) {
  unsigned value = 0;
  const auto* const end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data(), end, value, 16);
  return failure == std::errc() && stop == end ? std::optional(static_cast<char>(value)) : std::nullopt;
}

bool is_among(std::string_view set, char c) {
  return set.find(c) != std::string_view::npos;
}

/// The path that curl and its like open for "file:///tmp/x", "FILE://localhost/tmp/%78", "file:/tmp/x"; empty
/// for other words.
std::string path_of_file_url(std::string_view word) {
  constexpr std::string_view scheme = "file:";
  if (word.size() < scheme.size() || lower(std::string(word.substr(0, scheme.size()))) != scheme) {
    return "";
  }
  auto rest = word.substr(scheme.size());
  rest = rest.substr(0, rest.find_first_of(word_ends));
  if (rest.starts_with("//")) { rest = rest.substr(std::min(rest.find('/', 2), rest.size())); }
  std::string path;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const auto code = rest[i] == '%' && i + 2 < rest.size() ? hex_byte(rest.substr(i + 1, 2)) : std::nullopt;
    path += code ? *code : rest[i];
    if (code) { i += 2; }
  }
  return path;
}

/// By hand: wordexp() runs what it expands, and no library of Debian reads a shell's words without doing so.
class WordSplitter {
 public:
  std::vector<std::string> split(std::string_view command) {
    for (std::size_t i = 0; i < command.size(); ++i) {
      const bool is_escape = command[i] == '\\' && quote_ != '\'' && i + 1 < command.size();
      if (is_escape) {
        take_escaped(command[++i]);
      } else {
        take(command[i]);
      }
    }
    end_word();
    return std::move(words_);
  }

 private:
  void take(char c) {
    const char before = std::exchange(before_, c);
    if (quote_ != '\0') {
      if (c == quote_) {
        quote_ = '\0';
      } else {
        word_ += c;
      }
    } else if (c == '\'' || c == '"') {
      quote_ = c;
    } else if (is_among(word_ends, c)) {
      end_word();
      // Not "<>", which reads, too, nor ">(", a command.
      is_output_ = c == '>' ? before != '<' : is_output_ && c != '(';
    } else {
      word_ += c;
    }
  }

  void take_escaped(char c) {
    if (quote_ == '"' && !is_among("$`\"\\\n", c)) { word_ += '\\'; }
    if (c != '\n') { word_ += c; }
  }

  void end_word() {
    if (word_.empty()) { return; }
    if (!std::exchange(is_output_, false)) { words_.push_back(word_); }
    word_.clear();
  }

  std::vector<std::string> words_;
  std::string word_;
  char quote_ = '\0';
  char before_ = '\0';
  bool is_output_ = false;  ///< the next word is a file that is only written to
};

}  // namespace

std::vector<std::string> shell_words(std::string_view command) {
  return WordSplitter().split(command);
}

std::vector<std::string> absolute_paths_in(std::string_view word) {
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin < word.size();) {
    const auto rest = word.substr(begin);
    const auto piece = rest.substr(0, rest.find_first_of(path_ends));
    const auto slash = piece.find('/');
    if (slash == 0 || (slash != std::string_view::npos && piece.front() == '-')) {
      paths.emplace_back(piece.substr(slash));
      if (piece.size() < rest.size()) { paths.emplace_back(rest.substr(slash)); }
    }
    begin += piece.size() + 1;
    const bool is_scheme = piece.size() < rest.size() && rest[piece.size()] == ':' && slash == piece.npos;
    if (const auto path = is_scheme ? path_of_file_url(rest) : ""; !path.empty()) { paths.push_back(path); }
    // "https://host/x", "host:/x": a path of somewhere else.
    if (is_scheme) { begin = std::min(word.find_first_of(path_ends, begin), word.size()); }
  }
  return paths;
}

bool is_plain_path(std::string_view path) {
  return path.find_first_of(path_ends) == std::string_view::npos;
}

}  // namespace virtrain::harness
