#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

// Files for programs that link nothing else of virtrain's and throw no exceptions.
namespace virtrain {

/// Content of the file, as far as it can be read.
inline std::string plain_text(const std::string& path) {
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) { return text; }
  char buffer[4096];
  for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(fd);
  return text;
}

/// Whether all of it was written, in place of what was there.
inline bool write_plain_text(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) { return false; }
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return whole;
}

}  // namespace virtrain
