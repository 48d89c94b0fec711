#include "workloads/common/protocol.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain {

void write_out(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) { continue; }
    if (written < 0) { throw errno_error("write to standard output", errno); }
    done += static_cast<std::size_t>(written);
  }
}

void write_record(const std::string& record, int rank, nlohmann::json fields) {
  fields["record"] = record;
  fields["rank"] = rank;
  std::string line = fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (line.size() > max_record_bytes) {
    throw Error("write record '" + record + "'", ErrorCode::protocol,
                "it has " + std::to_string(line.size()) + " bytes (allowed: at most " +
                    std::to_string(max_record_bytes) + ")");
  }
  write_out(line);
}

std::optional<Command> CommandReader::take_line() {
  const std::size_t end = pending_.find('\n');
  if (end == std::string::npos) { return std::nullopt; }
  const std::string word{trim(std::string_view(pending_).substr(0, end))};
  pending_.erase(0, end + 1);
  if (word == "go") { return Command::go; }
  if (word == "stop") { return Command::stop; }
  throw Error("read standard input", ErrorCode::usage,
              "unknown command '" + printable(word.substr(0, 64)) + "' (allowed: go, stop)");
}

std::optional<Command> CommandReader::next(int timeout_ms) {
  while (true) {
    if (const auto command = take_line()) { return command; }
    if (ended_) { return Command::end_of_file; }
    pollfd watched{fd_, POLLIN, 0};
    const int ready = ::poll(&watched, 1, timeout_ms);
    if (ready < 0 && errno == EINTR) { continue; }
    if (ready < 0) { throw errno_error("wait for standard input", errno); }
    if (ready == 0) { return std::nullopt; }
    std::array<char, 512> buffer{};
    const ssize_t count = ::read(fd_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) { continue; }
    if (count < 0) { throw errno_error("read standard input", errno); }
    if (count == 0) {
      ended_ = true;
      if (!pending_.empty()) {
        pending_ += '\n';  // a last line without its end still counts
      }
      continue;
    }
    pending_.append(buffer.data(), static_cast<std::size_t>(count));
    if (pending_.size() > max_record_bytes && pending_.find('\n') == std::string::npos) {
      throw Error("read standard input", ErrorCode::usage, "a line longer than 4096 bytes");
    }
  }
}

}  // namespace virtrain
