#include "workloads/canary/dma_engine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common/error.h"
#include "common/model/edu_device.h"
#include "common/text/text.h"
#include "common/unique_fd.h"
#include "workloads/canary/cuda/gpu_engine.h"
#include "workloads/canary/cuda/gpu_path.h"
#include "workloads/canary/memory.h"

namespace virtrain::canary {
namespace {

namespace fs = std::filesystem;

constexpr const char* engine_functions = "sys/bus/pci/devices";

// QEMU, docs/specs/edu.rst.
constexpr std::size_t edu_bytes = std::size_t{1} << 20;
constexpr std::size_t edu_from = 0x80, edu_to = 0x88, edu_count = 0x90, edu_command = 0x98;
constexpr std::uint64_t edu_buffer = 0x40000, edu_start = 1, edu_out = 2;
constexpr std::chrono::seconds edu_deadline{20};

// PCI Local Bus Specification 3.0, 6.2.2.
constexpr off_t command_register = 4;
constexpr std::uint16_t memory_and_master = 0x2 | 0x4;

constexpr std::uint64_t most_pages = 8;

std::string value_of(const fs::path& file) {
  return std::string(trim(read_file(file).value_or("")));
}

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

bool is_edu(const fs::path& function) {
  return value_of(function / "vendor") == edu_vendor && value_of(function / "device") == edu_device;
}

bool is_gpu(const fs::path& root, const fs::path& function) {
  return is_nvidia(root, function.filename()) && value_of(function / "class").starts_with("0x03");
}

/// Memory regions of this node's devices, those of NVIDIA's left out: they are windows of the driver's.
std::vector<MemoryRegion> regions_of_node(const fs::path& root) {
  std::vector<MemoryRegion> all;
  for (const auto& function : entries_of(root / engine_functions)) {
    if (is_nvidia(root, function.filename())) { continue; }
    const auto regions = memory_regions(function);
    all.insert(all.end(), regions.begin(), regions.end());
  }
  return all;
}

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

std::unique_ptr<DmaEngine> find_engine(const fs::path& root, const LockedPage& own,
                                       const BusAddress& bus_address) {
  for (const auto& function : entries_of(root / engine_functions)) {
    if (is_edu(function)) {
      make_bus_master(function);
      return std::make_unique<EduEngine>(function / "resource0", bus_address);
    }
    if (is_gpu(root, function)) {
      return gpu_engine(function.filename(), {&own, bus_address(own), regions_of_node(root)});
    }
  }
  return nullptr;
}

std::vector<BusRead> read_by_device(DmaEngine& engine, const std::vector<Canary>& canaries,
                                    const std::vector<BusRange>& ranges, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::vector<BusRead> reads;
  for (const auto& range : ranges) {
    BusRead read{range.name, 0, range.bytes, {}, {}};
    const auto pages = std::max<std::uint64_t>(1, range.bytes / LockedPage::size);
    const auto samples = std::min(pages, most_pages);
    CanarySearch search(canaries);
    for (std::uint64_t i = 0; i < samples && std::chrono::steady_clock::now() < end; ++i) {
      const auto page = samples == 1 ? 0 : i * (pages - 1) / (samples - 1);
      const auto bytes = std::min<std::uint64_t>(LockedPage::size, range.bytes);
      auto one = engine.read(range.address + page * LockedPage::size, bytes);
      search.feed(one.bytes);
      read.scanned += one.bytes.size();
      if (!one.refused.empty()) { read.refused = std::move(one.refused); }
    }
    for (std::size_t i = 0; i < canaries.size(); ++i) {
      if (search.hits()[i].count > 0) { read.found.push_back(canaries[i].name); }
    }
    reads.push_back(std::move(read));
  }
  return reads;
}

}  // namespace virtrain::canary
