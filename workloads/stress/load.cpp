#include "workloads/stress/load.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "workloads/common/processor.h"

namespace virtrain::stress {
namespace {

constexpr std::size_t line_bytes = 64;

/// Keeps the compiler from leaving out work whose result nobody reads.
template <typename Value>
void keep(const Value& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

/// Multiply-adds in registers: neither cache nor memory, as much heat as plain C++ makes.
class CpuWorker : public Worker {
 public:
  std::uint64_t work() override {
    constexpr std::uint64_t rounds = 100'000;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (float& value : values_) { value = value * 0.9999F + 0.0001F; }
    }
    keep(values_);
    return 2 * rounds * values_.size();
  }

 private:
  std::array<float, 64> values_{};
};

/// Reads and writes one word in lines of the cache in random order, so that others' lines are evicted.
class CacheWorker : public Worker {
 public:
  CacheWorker(std::uint64_t bytes, int index)
      : words_(bytes / sizeof(std::uint64_t)), state_(static_cast<std::uint64_t>(index) * 2 + 1) {}

  std::uint64_t work() override {
    constexpr std::uint64_t accesses = 100'000;
    constexpr std::size_t line_words = line_bytes / sizeof(std::uint64_t);
    const std::uint64_t lines = words_.size() / line_words;
    for (std::uint64_t k = 0; k < accesses; ++k) {
      state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
      ++words_[(state_ >> 33U) % lines * line_words];
    }
    keep(words_);
    return accesses;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::uint64_t state_;
};

/// STREAM's triad, piece by piece through arrays that no cache holds.
class MemoryWorker : public Worker {
 public:
  explicit MemoryWorker(std::uint64_t bytes)
      : a_(bytes / 3 / sizeof(double), 0), b_(a_.size(), 1), c_(a_.size(), 2) {}

  std::uint64_t work() override {
    constexpr std::size_t piece = 1U << 16;
    const std::size_t end = std::min(next_ + piece, a_.size());
    for (std::size_t i = next_; i < end; ++i) { a_[i] = b_[i] + 3.0 * c_[i]; }
    keep(a_);
    const std::uint64_t done = 3 * sizeof(double) * (end - next_);
    next_ = end == a_.size() ? 0 : end;
    return done;
  }

 private:
  std::vector<double> a_;
  std::vector<double> b_;
  std::vector<double> c_;
  std::size_t next_ = 0;
};

class ComputeLoad : public Load {
 public:
  ComputeLoad(const Flags& flags, int threads) : kind_(flags.kind), threads_(threads) {
    const std::uint64_t cache = last_level_cache_bytes(allowed_cpus());
    const std::uint64_t total = flags.bytes > 0 ? flags.bytes : (kind_ == Kind::membw ? 4 * cache : cache);
    if (kind_ != Kind::cpu && total > available_memory_bytes()) {
      throw Error("make the working set", ErrorCode::host_unable,
                  format_size(total) + " do not fit into the " + format_size(available_memory_bytes()) +
                      " of memory that are free (say a smaller --bytes)");
    }
    bytes_each_ = std::max<std::uint64_t>(total / static_cast<std::uint64_t>(threads), 1U << 16);
  }

  const char* unit() const override {
    if (kind_ == Kind::cpu) { return "operations"; }
    return kind_ == Kind::llc ? "accesses" : "B";
  }
  int threads() const override { return threads_; }

  std::unique_ptr<Worker> make_worker(int index) override {
    if (kind_ == Kind::cpu) { return std::make_unique<CpuWorker>(); }
    if (kind_ == Kind::llc) { return std::make_unique<CacheWorker>(bytes_each_, index); }
    return std::make_unique<MemoryWorker>(bytes_each_);
  }

 private:
  Kind kind_;
  int threads_;
  std::uint64_t bytes_each_ = 0;
};

constexpr std::uint64_t block_bytes = 1ULL << 20;
constexpr std::size_t alignment_bytes = 4096;  // what O_DIRECT asks for
constexpr std::uint64_t default_file_bytes = 1ULL << 30;
constexpr std::uint64_t bytes_between_syncs = 64ULL << 20;

/// Writes blocks over the file again and again, past the page cache where the file system can, and syncs.
class DiskLoad : public Load {
 public:
  DiskLoad(const Flags& flags, int threads) : path_(flags.file), threads_(threads) {
    std::uint64_t bytes = flags.bytes > 0 ? flags.bytes : default_file_bytes;
    if (!flags.serial.empty()) { bytes = std::min(bytes, open_disk(flags.serial)); }
    if (flags.serial.empty()) { make_file(); }
    blocks_ = std::max<std::uint64_t>(1, bytes / block_bytes);
  }

  const char* unit() const override { return "B"; }
  int threads() const override { return threads_; }
  std::unique_ptr<Worker> make_worker(int index) override;

  /// Writes the next block.
  void write_block(const void* block) {
    const std::uint64_t number = next_.fetch_add(1);
    const auto offset = static_cast<off_t>(number % blocks_ * block_bytes);
    const ssize_t written = ::pwrite(file_.get(), block, block_bytes, offset);
    if (written < 0) { throw errno_error("write to '" + path_ + "'", errno); }
    if (static_cast<std::uint64_t>(written) < block_bytes) {
      throw Error("write to '" + path_ + "'", ErrorCode::io,
                  "the disk took only a part (is it full? A smaller --bytes may help)");
    }
    const bool sync = (number + 1) % blocks_ == 0 || (number + 1) % (bytes_between_syncs / block_bytes) == 0;
    if (sync && ::fsync(file_.get()) != 0) { throw errno_error("sync '" + path_ + "'", errno); }
  }

 private:
  void make_file() {
    constexpr int mode = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    constexpr int rights = 0600;
    file_.reset(::open(path_.c_str(), mode | O_DIRECT, rights));
    if (!file_ && errno == EINVAL) {
      ::unlink(path_.c_str());  // some file systems make the file before they refuse O_DIRECT
      file_.reset(::open(path_.c_str(), mode, rights));
    }
    if (!file_) { throw errno_error("make '" + path_ + "'", errno); }
    // Without a name it is gone with this process, however that ends.
    if (::unlink(path_.c_str()) != 0) { throw errno_error("remove '" + path_ + "'", errno); }
  }

  /// A disk that nobody uses: the kernel refuses one that is mounted or part of something. Returns its size.
  std::uint64_t open_disk(const std::string& serial) {
    path_ = "/dev/" + disk_with_serial("/sys/block", serial);
    file_.reset(::open(path_.c_str(), O_WRONLY | O_EXCL | O_DIRECT | O_CLOEXEC));
    std::uint64_t bytes = 0;
    if (!file_ || ::ioctl(file_.get(), BLKGETSIZE64, &bytes) != 0) {
      throw errno_error("open the disk '" + path_ + "'", errno);
    }
    if (bytes < block_bytes) {
      throw Error("open the disk '" + path_ + "'", ErrorCode::bad_input, "it is smaller than 1 MiB");
    }
    return bytes;
  }

  std::string path_;
  int threads_;
  std::uint64_t blocks_ = 1;
  UniqueFd file_;
  std::atomic<std::uint64_t> next_ = 0;
};

class DiskWorker : public Worker {
 public:
  DiskWorker(DiskLoad& load, int index)
      : load_(load), block_(std::aligned_alloc(alignment_bytes, block_bytes)) {
    // No zeros: some disks and file systems keep those without writing them.
    std::memset(block_.get(), 0x5a + index % 64, block_bytes);
  }
  std::uint64_t work() override {
    load_.write_block(block_.get());
    return block_bytes;
  }

 private:
  struct Free {
    void operator()(void* pointer) const { std::free(pointer); }
  };
  DiskLoad& load_;
  std::unique_ptr<void, Free> block_;
};

std::unique_ptr<Worker> DiskLoad::make_worker(int index) {
  return std::make_unique<DiskWorker>(*this, index);
}

constexpr std::size_t net_piece_bytes = 256U << 10;
constexpr int patience_ms = 100;  ///< how long a piece of work waits for the network

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

/// Connected, or an Error with the last address' words.
UniqueFd connect_to(const std::string& host, const std::string& port) {
  const std::string operation = "connect to " + host + " port " + port;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int status = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); status != 0) {
    throw Error(operation, ErrorCode::io, ::gai_strerror(status));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  int last_errno = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    UniqueFd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    timeval limit{5, 0};  // of connecting, too
    if (fd) { ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); }
    if (fd && ::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) { return fd; }
    last_errno = errno;
  }
  const Error failure = errno_error(operation, last_errno);
  throw Error(
      operation, ErrorCode::io,
      failure.message() + " (start the other side first: virtrain-stress --kind net --listen " + port + ")");
}

/// Sends over a connection of its own.
class SendingWorker : public Worker {
 public:
  explicit SendingWorker(UniqueFd fd) : fd_(std::move(fd)), piece_(net_piece_bytes, 0x5a) {}

  std::uint64_t work() override {
    pollfd writable{fd_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, patience_ms) <= 0) { return 0; }
    const ssize_t sent = ::send(fd_.get(), piece_.data(), piece_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) { return static_cast<std::uint64_t>(sent); }
    if (errno == EAGAIN || errno == EINTR) { return 0; }
    throw errno_error("send to the peer", errno);
  }

 private:
  UniqueFd fd_;
  std::vector<unsigned char> piece_;
};

class Sender : public Load {
 public:
  Sender(const Flags& flags, int threads)
      : host_(flags.peer_host), port_(flags.peer_port), threads_(threads) {}
  const char* unit() const override { return "B"; }
  int threads() const override { return threads_; }
  std::unique_ptr<Worker> make_worker(int /*index*/) override {
    return std::make_unique<SendingWorker>(connect_to(host_, port_));
  }

 private:
  std::string host_;
  std::string port_;
  int threads_;
};

UniqueFd listen_on(int port) {
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool has_ipv6 = static_cast<bool>(fd);
  if (!has_ipv6) { fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }
  const std::string operation = "listen on port " + std::to_string(port);
  if (!fd) { throw errno_error(operation, errno); }
  const int yes = 1, no = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = any6.sin6_port;
  if (has_ipv6) { ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no); }
  const int bound = has_ipv6 ? ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any6), sizeof any6)
                             : ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
  if (bound != 0 || ::listen(fd.get(), SOMAXCONN) != 0) { throw errno_error(operation, errno); }
  return fd;
}

int port_of(int fd) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    throw errno_error("ask for the port", errno);
  }
  // The port is at the same place in the addresses of both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

/// Takes what any number of senders send and throws it away.
class ReceivingWorker : public Worker {
 public:
  explicit ReceivingWorker(UniqueFd listener) : buffer_(net_piece_bytes) {
    sockets_.push_back(std::move(listener));
  }

  std::uint64_t work() override {
    std::vector<pollfd> watched;
    for (const UniqueFd& socket : sockets_) { watched.push_back({socket.get(), POLLIN, 0}); }
    if (::poll(watched.data(), watched.size(), patience_ms) <= 0) { return 0; }
    std::uint64_t received = 0;
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents == 0) { continue; }
      const ssize_t count = ::recv(watched[i].fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (count > 0) { received += static_cast<std::uint64_t>(count); }
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) { sockets_[i].reset(); }
    }
    std::erase_if(sockets_, [](const UniqueFd& socket) { return !socket; });
    if (watched.front().revents != 0) {
      UniqueFd sender(::accept4(watched.front().fd, nullptr, nullptr, SOCK_CLOEXEC));
      if (sender) { sockets_.push_back(std::move(sender)); }
    }
    return received;
  }

 private:
  std::vector<UniqueFd> sockets_;  ///< the listener first
  std::vector<unsigned char> buffer_;
};

class Receiver : public Load {
 public:
  explicit Receiver(int port) : listener_(listen_on(port)), port_(port_of(listener_.get())) {}
  const char* unit() const override { return "B"; }
  int threads() const override { return 1; }
  std::unique_ptr<Worker> make_worker(int /*index*/) override {
    return std::make_unique<ReceivingWorker>(std::move(listener_));
  }
  std::optional<int> port() const override { return port_; }

 private:
  UniqueFd listener_;
  int port_;
};

}  // namespace

Device Load::device() {
  return {cpu_model()};
}

std::string disk_with_serial(const std::filesystem::path& disks, const std::string& serial) {
  const std::string operation = "look for the disk with serial number '" + printable(serial) + "'";
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& disk : std::filesystem::directory_iterator(disks, error)) {
    if (read_value(disk.path() / "serial") == serial) { found.push_back(disk.path().filename().string()); }
  }
  if (found.size() != 1) {
    throw Error(operation, ErrorCode::bad_input,
                found.empty() ? "no disk has it" : "several have it: " + join(found, ", "));
  }
  return found[0];
}

std::unique_ptr<Load> make_load(const Flags& flags) {
  if (flags.kind == Kind::allreduce) { return make_ranks_load(flags); }
  if (loads_gpu(flags)) { return make_gpu_load(flags); }
  const int cores = static_cast<int>(allowed_cpus().size());
  const bool on_every_core = flags.kind != Kind::disk && flags.kind != Kind::net;
  const int threads = flags.threads > 0 ? flags.threads : (on_every_core ? cores : 1);
  if (flags.kind == Kind::disk) { return std::make_unique<DiskLoad>(flags, threads); }
  if (flags.kind == Kind::net && flags.listen_port) { return std::make_unique<Receiver>(*flags.listen_port); }
  if (flags.kind == Kind::net) { return std::make_unique<Sender>(flags, threads); }
  return std::make_unique<ComputeLoad>(flags, threads);
}

std::uint64_t piece_bytes(std::uint64_t largest, int times, std::optional<std::uint64_t> bytes_per_second) {
  if (!bytes_per_second) { return largest; }
  constexpr std::uint64_t line = 128;
  constexpr std::uint64_t pieces_a_second = 20;
  const std::uint64_t lines = *bytes_per_second / pieces_a_second / static_cast<std::uint64_t>(times) / line;
  return std::min(largest, std::max<std::uint64_t>(lines, 1) * line);
}

int products_in_piece(double seconds_of_one) {
  constexpr double seconds_of_a_piece = 5e-3;
  constexpr double most = 4096;
  return static_cast<int>(std::clamp(seconds_of_a_piece / seconds_of_one, 1.0, most));
}

std::vector<Ring::Part> Ring::next(std::uint64_t bytes) {
  std::vector<Part> parts;
  while (bytes > 0) {
    const std::uint64_t part = std::min(bytes, size_ - offset_);
    parts.push_back({offset_, part});
    offset_ = (offset_ + part) % size_;
    bytes -= part;
  }
  return parts;
}

}  // namespace virtrain::stress
