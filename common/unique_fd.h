#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <utility>

namespace virtrain {

/// Owns one file descriptor; closes it when it goes.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) { reset(std::exchange(other.fd_, -1)); }
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// A connected pair of stream sockets, close-on-exec. Throws Error.
std::array<UniqueFd, 2> make_socketpair();

enum class Readable { regular_file, regular_file_or_pipe };

/// Opens for reading what `path` leads to if it is of that kind. What else is there is not opened, for that
/// alone may start a device or wait. None: errno says why not, EINVAL that it is of another kind (EISDIR: a
/// folder).
UniqueFd open_to_read(const std::filesystem::path& path, Readable kind = Readable::regular_file);

/// Waits until there is something to read (or the other end is gone). False: not before the deadline.
bool becomes_readable(int fd, std::chrono::milliseconds deadline);

}  // namespace virtrain
