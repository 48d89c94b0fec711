#include "workloads/canary/dma_engine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "workloads/canary/requests.h"

namespace virtrain::canary {
namespace {

namespace fs = std::filesystem;

// QEMU, docs/specs/edu.rst.
constexpr std::size_t edu_bytes = std::size_t{1} << 20;
constexpr std::size_t edu_from = 0x80, edu_to = 0x88, edu_count = 0x90, edu_command = 0x98;
constexpr std::uint64_t edu_buffer = 0x40000, edu_start = 1, edu_out = 2;
constexpr std::chrono::seconds edu_deadline{20};

constexpr std::uint64_t most_pages = 8;

}  // namespace

EduEngine::EduEngine(const fs::path& registers, BusAddress bus_address)
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

std::vector<BusRead> read_by_device(DmaEngine& engine, const std::vector<Canary>& canaries,
                                    const std::vector<BusRange>& ranges, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::vector<BusRead> reads;
  for (const auto& range : ranges) {
    BusRead read{.total = range.bytes, .name = range.name.substr(0, most_path_bytes)};
    const auto pages = std::max<std::uint64_t>(1, range.bytes / LockedPage::size);
    const auto samples = std::min(pages, most_pages);
    CanarySearch search(canaries);
    for (std::uint64_t i = 0; i < samples && std::chrono::steady_clock::now() < end; ++i) {
      const auto page = samples == 1 ? 0 : i * (pages - 1) / (samples - 1);
      const auto bytes = std::min<std::uint64_t>(LockedPage::size, range.bytes);
      auto one = engine.read(range.address + page * LockedPage::size, bytes);
      search.feed(one.bytes);
      read.scanned += one.bytes.size();
      if (!one.refused.empty()) { read.refused = one.refused.substr(0, most_path_bytes); }
    }
    for (std::size_t i = 0; i < canaries.size(); ++i) {
      if (search.hits()[i].count > 0) { read.found.push_back(canaries[i].name); }
    }
    reads.push_back(std::move(read));
  }
  return reads;
}

}  // namespace virtrain::canary
