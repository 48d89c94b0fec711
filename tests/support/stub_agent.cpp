// A stand-in for virtrain-agent in tests of vmctl: answers simple lines on its channel, so that a test can
// look at the inside of a guest or slice without the real protocol.
//
//   hello HOST                        is said first
//   echo N\n<N bytes>                 the same bytes come back
//   cat PATH                          "N\n" and the file's content (N = -1: cannot be read)
//   put PATH TEXT                     writes the file, "ok" or "failed"
//   run COMMAND                       "N\n" and the output of sh -c COMMAND
//   exit

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int channel = -1;
bool ends_with_channel = false;

std::string read_text(const std::string& path, bool& ok) {
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ok = fd >= 0;
  char buffer[4096];
  for (ssize_t got; ok && (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  if (ok) { ::close(fd); }
  return text;
}

int open_port(const std::string& wanted) {
  DIR* ports = ::opendir("/sys/class/virtio-ports");
  for (const dirent* entry = nullptr; ports != nullptr && (entry = ::readdir(ports)) != nullptr;) {
    bool ok = false;
    const std::string name = entry->d_name;
    const std::string label = read_text("/sys/class/virtio-ports/" + name + "/name", ok);
    if (ok && label == wanted + "\n") { return ::open(("/dev/" + name).c_str(), O_RDWR | O_CLOEXEC); }
  }
  return -1;
}

/// Reads at least one byte; a virtio port reads as ended while no host client is there.
void read_more(std::string& pending) {
  char buffer[65536];
  while (true) {
    const ssize_t got = ::read(channel, buffer, sizeof buffer);
    if (got > 0) { return void(pending.append(buffer, static_cast<std::size_t>(got))); }
    if (ends_with_channel) { std::exit(0); }
    ::usleep(50'000);
  }
}

void say(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t sent = ::write(channel, text.data() + at, text.size() - at);
    if (sent > 0) {
      at += static_cast<std::size_t>(sent);
    } else if (ends_with_channel) {
      std::exit(0);
    } else {
      ::usleep(10'000);
    }
  }
}

std::string take_line(std::string& pending) {
  while (pending.find('\n') == std::string::npos) { read_more(pending); }
  const auto end = pending.find('\n');
  std::string line = pending.substr(0, end);
  pending.erase(0, end + 1);
  return line;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  for (std::size_t got; pipe != nullptr && (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    text.append(buffer, got);
  }
  if (pipe != nullptr) { ::pclose(pipe); }
  return text;
}

void answer(const std::string& line, std::string& pending) {
  const auto blank = line.find(' ');
  const std::string word = line.substr(0, blank);
  const std::string rest = blank == std::string::npos ? "" : line.substr(blank + 1);
  if (word == "echo") {
    const auto size = static_cast<std::size_t>(std::strtoul(rest.c_str(), nullptr, 10));
    while (pending.size() < size) { read_more(pending); }
    say(pending.substr(0, size));
    pending.erase(0, size);
  } else if (word == "cat") {
    bool ok = false;
    const auto text = read_text(rest, ok);
    say(ok ? std::to_string(text.size()) + "\n" + text : "-1\n");
  } else if (word == "put") {
    const auto gap = rest.find(' ');
    const int fd = ::open(rest.substr(0, gap).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const std::string text = rest.substr(gap + 1);
    const bool ok = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (fd >= 0) { ::close(fd); }
    say(ok ? "ok\n" : "failed\n");
  } else if (word == "run") {
    const auto text = output_of(rest);
    say(std::to_string(text.size()) + "\n" + text);
  } else if (word == "exit") {
    std::exit(0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--channel") == 0) { channel = open_port(argv[i + 1]); }
    if (std::strcmp(argv[i], "--fd") == 0) { channel = std::atoi(argv[i + 1]), ends_with_channel = true; }
  }
  if (channel < 0) {
    std::fprintf(stderr, "stub agent: no channel\n");
    return 1;
  }
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  say(std::string("hello ") + host + "\n");
  for (std::string pending;;) { answer(take_line(pending), pending); }
}
