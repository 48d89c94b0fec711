#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

namespace virtrain::test {

/// A pipe of this name and a writer, who waits until somebody opens it for reading, be it for a moment.
class WaitingWriter {
 public:
  explicit WaitingWriter(const std::filesystem::path& pipe) : pipe_(pipe) {
    ::mkfifo(pipe.c_str(), 0644);
    writer_ = std::thread([this] {
      ::close(::open(pipe_.c_str(), O_WRONLY | O_CLOEXEC));
      was_let_in_ = true;
    });
    std::this_thread::sleep_for(long_enough);
  }
  ~WaitingWriter() {
    const int reader = ::open(pipe_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    writer_.join();
    ::close(reader);
  }
  WaitingWriter(const WaitingWriter&) = delete;
  WaitingWriter& operator=(const WaitingWriter&) = delete;

  bool was_let_in() const {
    std::this_thread::sleep_for(long_enough);
    return was_let_in_;
  }

 private:
  static constexpr std::chrono::milliseconds long_enough{100};

  std::filesystem::path pipe_;
  std::atomic<bool> was_let_in_ = false;
  std::thread writer_;
};

}  // namespace virtrain::test
