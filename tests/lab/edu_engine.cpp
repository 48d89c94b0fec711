#include "tests/lab/edu_engine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"

namespace virtrain::canary {
namespace {

namespace fs = std::filesystem;

constexpr const char* edu_vendor = "0x1234";
constexpr const char* edu_device = "0x11e8";

// QEMU, docs/specs/edu.rst.
constexpr std::size_t edu_bytes = std::size_t{1} << 20;
constexpr std::size_t edu_from = 0x80, edu_to = 0x88, edu_count = 0x90, edu_command = 0x98;
constexpr std::uint64_t edu_buffer = 0x40000, edu_start = 1, edu_out = 2;
constexpr std::chrono::seconds edu_deadline{20};

// PCI Local Bus Specification 3.0, 6.2.2.
constexpr off_t command_register = 4;
constexpr std::uint16_t memory_and_master = 0x2 | 0x4;

/// Without this the function's requests end at its own port.
void make_bus_master(const fs::path& function) {
  const auto operation = "let " + function.filename().string() + " be a bus master";
  const UniqueFd fd(::open((function / "config").c_str(), O_RDWR | O_CLOEXEC));
  std::uint16_t command = 0;
  if (!fd || ::pread(fd.get(), &command, sizeof command, command_register) != sizeof command) {
    throw errno_error(operation, errno);
  }
  command |= memory_and_master;
  if (::pwrite(fd.get(), &command, sizeof command, command_register) != sizeof command) {
    throw errno_error(operation, errno);
  }
}

class EduEngine : public DmaEngine {
 public:
  /// `registers`: its region 0 as a file.
  EduEngine(const fs::path& registers, const BusAddress& bus_address);
  ~EduEngine() override;
  EduEngine(const EduEngine&) = delete;
  EduEngine& operator=(const EduEngine&) = delete;

  PageRead read(std::uint64_t address, std::size_t bytes) override;

 private:
  volatile std::uint64_t& at(std::size_t offset) const;
  void copy(std::uint64_t from, std::uint64_t to, std::size_t bytes, bool out);

  char* registers_;
  LockedPage zeros_, page_;
  std::uint64_t zeros_address_, page_address_;
};

EduEngine::EduEngine(const fs::path& registers, const BusAddress& bus_address)
    : zeros_address_(bus_address(zeros_)), page_address_(bus_address(page_)) {
  const auto operation = "map " + registers.string();
  const UniqueFd fd(::open(registers.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) { throw errno_error(operation, errno); }
  void* mapped = ::mmap(nullptr, edu_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) { throw errno_error(operation, errno); }
  registers_ = static_cast<char*>(mapped);
}

EduEngine::~EduEngine() {
  ::munmap(registers_, edu_bytes);
}

volatile std::uint64_t& EduEngine::at(std::size_t offset) const {
  return *reinterpret_cast<volatile std::uint64_t*>(registers_ + offset);
}

void EduEngine::copy(std::uint64_t from, std::uint64_t to, std::size_t bytes, bool out) {
  const auto end = std::chrono::steady_clock::now() + edu_deadline;
  at(edu_from) = from;
  at(edu_to) = to;
  at(edu_count) = bytes;
  at(edu_command) = edu_start | (out ? edu_out : 0);
  while ((at(edu_command) & edu_start) != 0) {
    if (std::chrono::steady_clock::now() >= end) {
      throw Error("copy by the device's engine", ErrorCode::timeout, "it does not come to an end");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

PageRead EduEngine::read(std::uint64_t address, std::size_t bytes) {
  bytes = std::min(bytes, LockedPage::size);
  std::memset(page_.data(), 0, LockedPage::size);
  // A read that is refused leaves in the buffer what the one before has brought.
  copy(zeros_address_, edu_buffer, bytes, false);
  copy(address, edu_buffer, bytes, false);
  copy(edu_buffer, page_address_, bytes, true);
  return {std::string(page_.data(), bytes), ""};
}

}  // namespace

std::unique_ptr<DmaEngine> edu_engine(const fs::path& function, const BusAddress& bus_address) {
  const auto has = [&](const char* file, const char* value) {
    return trim(read_file(function / file).value_or("")) == value;
  };
  if (!has("vendor", edu_vendor) || !has("device", edu_device)) { return nullptr; }
  make_bus_master(function);
  return std::make_unique<EduEngine>(function / "resource0", bus_address);
}

}  // namespace virtrain::canary
