#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
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

/// Another descriptor of the same open file, close-on-exec, with a number of at least `least`: none of the
/// standard streams. Throws Error.
UniqueFd duplicate(int fd, int least = 3);

/// A connected pair of stream sockets, close-on-exec. Throws Error.
std::array<UniqueFd, 2> make_socketpair();

struct Pipe {
  UniqueFd read, write;
};
/// Close-on-exec. Throws Error.
Pipe make_pipe();

/// Waits until there is something to read (or the other end is gone). False: not before the deadline.
bool becomes_readable(int fd, std::chrono::milliseconds deadline);

/// Keeps descriptors that a caller left open for this process, such as the lock of a schedule, from its
/// children: a daemon that stays would hold them for ever. Call it before anything else is opened.
void keep_given_descriptors();
/// The N of /dev/fd/N and /proc/self/fd/N, and of the names of standard streams in /dev.
std::optional<int> named_descriptor(const std::filesystem::path& file);
/// Whether the caller gave it: a standard stream, or open when keep_given_descriptors() was called.
bool was_given(int descriptor);

/// A stream to whoever listens at that path. Throws Error(io) with the operation and errno's words.
UniqueFd connect_to_local_socket(const std::string& path, const std::string& operation);

}  // namespace virtrain
