#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "workloads/stress/loads/loads.h"

namespace virtrain::stress {
namespace {

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

}  // namespace

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

std::unique_ptr<Load> make_disk_load(const Flags& flags, int threads) {
  return std::make_unique<DiskLoad>(flags, threads);
}

}  // namespace virtrain::stress
