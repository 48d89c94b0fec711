#include "harness/cli/progress_line.h"

#include <fmt/ostream.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>

#include "common/system/log.h"
#include "common/system/time.h"

namespace virtrain::harness {
namespace {

constexpr const char* erase_line = "\r\x1b[K";

std::size_t terminal_columns() {
  constexpr std::size_t usual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual;
}

}  // namespace

ProgressLine::ProgressLine() : thread_([this] { draw_each_second(); }) {
  log::begin_lines_with(erase_line);
}

ProgressLine::~ProgressLine() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
  log::begin_lines_with("");
  std::fputs(erase_line, stderr);
  std::fflush(stderr);
}

void ProgressLine::show(const Progress& progress) {
  {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
    is_new_ = true;
  }
  changed_.notify_all();
}

void ProgressLine::draw_each_second() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    const auto progress = progress_;
    is_new_ = false;
    lock.unlock();  // a terminal that takes nothing (Ctrl-S) holds up this thread and not who shows something
    if (!progress.trial.empty()) {
      fmt::print(std::cerr, "{}{}", erase_line, progress_words(progress, monotonic_ns(), terminal_columns()));
    }
    lock.lock();
    changed_.wait_for(lock, std::chrono::seconds(1), [this] { return is_new_ || is_over_; });
  }
}

}  // namespace virtrain::harness
