#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace virtrain {

/// Most bytes of one record with its line end: so much a pipe takes in one piece.
inline constexpr std::size_t max_record_bytes = 4096;

/// Writes text to standard output with one write(2), so that lines of several ranks never mix.
void write_out(const std::string& text);

/// One record of the workload protocol: an object with "record" and "rank", on a line of its own.
void write_record(const std::string& record, int rank, nlohmann::json fields);

/// Commands of the coordinator on standard input.
enum class Command { go, stop, end_of_file };

/// Reads commands from a descriptor without ever blocking longer than asked.
class CommandReader {
 public:
  explicit CommandReader(int fd) : fd_(fd) {}
  /// Next command, or nothing if none came within the time (-1: no limit). Throws Error(usage) on other
  /// words.
  std::optional<Command> next(int timeout_ms);

 private:
  std::optional<Command> take_line();
  int fd_;
  bool ended_ = false;
  std::string pending_;
};

}  // namespace virtrain
