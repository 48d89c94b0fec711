#include "common/text/text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "common/error.h"
#include "common/new_file.h"
#include "common/text/scanner.h"
#include "common/text/unicode.h"
#include "common/text/units.h"
#include "common/unique_fd.h"

namespace virtrain {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) { return parts; }
    text.remove_prefix(end + 1);
  }
}

std::string lower(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') { letter = static_cast<char>(letter - 'A' + 'a'); }
  }
  return text;
}

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) { return {}; }
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  std::vector<std::string_view> words;
  for (auto begin = text.find_first_not_of(blanks); begin != text.npos;) {
    const auto end = std::min(text.find_first_of(blanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(blanks, end);
  }
  return words;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string line_value(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto colon = line.find(':');
    if (colon == line.npos || trim(line.substr(0, colon)) != name) { continue; }
    return std::string(trim(line.substr(colon + 1)));
  }
  return "";
}

std::optional<std::string> read_at_most(int file, std::size_t most_bytes) {
  std::string content;
  char buffer[16384];
  while (content.size() < most_bytes) {
    const auto got = ::read(file, buffer, std::min(sizeof buffer, most_bytes - content.size()));
    if (got < 0 && errno == EINTR) { continue; }
    if (got < 0) { return std::nullopt; }
    if (got == 0) { break; }
    content.append(buffer, static_cast<std::size_t>(got));
  }
  return content;
}

std::optional<std::string> read_file(const std::filesystem::path& path, std::size_t most_bytes) {
  const auto file = open_to_read(path);
  auto content = file ? read_at_most(file.get(), most_bytes + 1) : std::nullopt;
  if (!content || content->size() <= most_bytes) { return content; }
  errno = EFBIG;
  return std::nullopt;
}

std::optional<std::string> read_tail(const std::filesystem::path& path, std::size_t most_bytes) {
  const auto file = open_to_read(path);
  if (!file) { return std::nullopt; }
  const auto end = ::lseek(file.get(), 0, SEEK_END);
  if (end < 0) { return std::nullopt; }
  const auto most = static_cast<off_t>(most_bytes);
  const off_t begin = end > most ? end - most : 0;
  std::string tail(static_cast<std::size_t>(end - begin), '\0');
  const auto got = ::pread(file.get(), tail.data(), tail.size(), begin);
  if (got < 0) { return std::nullopt; }
  tail.resize(static_cast<std::size_t>(got));
  return tail;
}

std::optional<std::string> read_value(const std::filesystem::path& path) {
  constexpr std::size_t most_bytes = std::size_t{1} << 20;
  auto content = read_file(path, most_bytes);
  if (content) { content = std::string(trim(*content)); }
  return content;
}

std::string link_name(const std::filesystem::path& link) {
  std::error_code failure;
  const auto target = std::filesystem::read_symlink(link, failure);
  return failure ? "" : target.filename().string();
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder, failure);
  for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
    entries.push_back(entry->path());
  }
  std::ranges::sort(entries);
  return entries;
}

std::vector<std::string> entry_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : entries_of(folder)) { names.push_back(entry.filename().string()); }
  return names;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           std::optional<mode_t> mode) {
  constexpr mode_t own = 0600, usual = 0644;
  NewFile file(path, mode ? own : usual);
  for (std::string_view rest = content; !rest.empty();) {
    const auto written = ::write(file.descriptor(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) { continue; }
    if (written < 0) { throw errno_error("write " + path.string(), errno); }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  file.take_place(mode);
}

std::string printable(std::string_view bytes, std::size_t most_bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto [value, length] = first_code_point(bytes);
    const bool shown = length > 0 && is_showable(value);
    const std::string_view piece = shown ? bytes.substr(0, length) : std::string_view("\uFFFD");
    if (text.size() + piece.size() > most_bytes) {
      return text + fmt::format("… ({})", counted(bytes.size(), "more byte"));
    }
    text += piece;
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::string excerpt(std::string_view bytes, std::size_t most_bytes) {
  std::string line = printable(bytes, most_bytes);
  for (char& byte : line) {
    if (byte == '\n' || byte == '\t') { byte = ' '; }
  }
  return line;
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = first_code_point(text.substr(at)).bytes;
    if (length == 0) { return at; }
    at += length;
  }
  return std::string_view::npos;
}

std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t longest_word = 100;
  if (word.size() > longest_word) { return std::nullopt; }
  const auto distance = [&](std::string_view other) {  // Levenshtein, one row
    std::vector<std::size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t substitute = diagonal + (word[i - 1] == other[j - 1] ? 0 : 1);
        diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substitute}));
      }
    }
    return row.back();
  };
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : known) {
    const std::size_t d = distance(candidate);
    if (d < best_distance && d < candidate.size()) {
      best = candidate;
      best_distance = d;
    }
  }
  if (best) { return best; }
  const auto begun = std::ranges::find_if(known, [&](const auto& candidate) {  // gpus_per_node of gpus
    return !word.empty() && candidate.starts_with(std::string(word) + "_");
  });
  return begun == known.end() ? std::nullopt : std::optional(*begun);
}

namespace {

constexpr std::int64_t most_cpus = 65536;

/// "0-3" or "8": the first and the last; nothing of other text.
std::optional<std::pair<std::int64_t, std::int64_t>> cpu_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_integer(text.substr(0, dash));
  const auto last = dash == text.npos ? first : parse_integer(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= most_cpus) { return std::nullopt; }
  return std::pair(*first, *last);
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    throw Error("read CPU list", ErrorCode::bad_input, fmt::format("'{}' {}", excerpt(text), why));
  };
  std::vector<int> cpus;
  std::vector<bool> is_in(static_cast<std::size_t>(most_cpus));
  Scanner in(trim(text));
  if (in.at_end()) { return cpus; }
  do {
    const auto range = cpu_range(in.take_while([](char c) { return c != ','; }));
    if (!range) { refuse("is not a CPU list such as 0-3,8"); }
    for (auto cpu = range->first; cpu <= range->second; ++cpu) {
      if (is_in[static_cast<std::size_t>(cpu)]) { refuse(fmt::format("names CPU {} twice", cpu)); }
      is_in[static_cast<std::size_t>(cpu)] = true;
      cpus.push_back(static_cast<int>(cpu));
    }
  } while (in.take(","));
  return cpus;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::vector<int> sorted = cpus;
  std::ranges::sort(sorted);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) { ++end; }
    parts.push_back(end - i == 1 ? fmt::format("{}", sorted[i])
                                 : fmt::format("{}-{}", sorted[i], sorted[end - 1]));
    i = end;
  }
  return join(parts, ",");
}

}  // namespace virtrain
