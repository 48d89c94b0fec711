#include "workloads/canary/cuda/gpu_engine.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "workloads/canary/cuda/gpu_device.h"
#include "workloads/canary/cuda/kernels.h"
#include "workloads/canary/read_in_child.h"

namespace virtrain::canary {
namespace {

/// The GPU was not told to read.
class NotTold : public Error {
 public:
  explicit NotTold(const Error& why) : Error(why) {}
};

/// A file's page, mapped for a driver that wants its address, and the place in it.
class BusPage {
 public:
  BusPage(const std::filesystem::path& file, std::uint64_t offset) {
    const auto operation = fmt::format("map {} at {:#x}", file.string(), offset);
    const UniqueFd fd(::open(file.c_str(), O_RDWR | O_SYNC | O_CLOEXEC));
    if (!fd) { throw NotTold(errno_error(operation, errno)); }
    memory_ = ::mmap(nullptr, LockedPage::size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(),
                     static_cast<off_t>(offset));
    if (memory_ == MAP_FAILED) { throw NotTold(errno_error(operation, errno)); }
  }
  ~BusPage() { ::munmap(memory_, LockedPage::size); }
  BusPage(const BusPage&) = delete;
  BusPage& operator=(const BusPage&) = delete;

  void* get() const { return memory_; }

 private:
  void* memory_;
};

/// Finds the page in the region that has the address, else in the whole bus. A region may begin within a
/// page.
BusPage page_at(const BusView& bus, std::uint64_t address) {
  const auto page = [](std::uint64_t any) { return any / LockedPage::size * LockedPage::size; };
  for (const auto& region : bus.regions) {
    if (address >= region.address && address - region.address < region.bytes) {
      return BusPage(region.file, page(address) - page(region.address));
    }
  }
  return BusPage(bus.rest, page(address));
}

/// A page that the driver has made known to the GPU.
class Registered {
 public:
  Registered(void* page, unsigned flags) : page_(page) {
    must_be_told(cudaHostRegister(page, LockedPage::size, flags));
  }
  ~Registered() { ignore_gpu(cudaHostUnregister(page_)); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  /// Where the GPU sees it.
  const std::byte* seen() const {
    void* seen = nullptr;
    must_be_told(cudaHostGetDevicePointer(&seen, page_, 0));
    return static_cast<const std::byte*>(seen);
  }

 private:
  static void must_be_told(int status) {
    if (status != cudaSuccess) { throw NotTold(gpu_error("register a page with the GPU's driver", status)); }
  }

  void* page_;
};

/// Whether a read that ended with this lasting error was one that the GPU was not let do, and not one that
/// its own memory or NVLink broke.
bool is_refused_read(cudaError_t status) {
  return status != cudaErrorECCUncorrectable && status != cudaErrorNvlinkUncorrectable;
}

std::string load_by_gpu(void* page, unsigned flags, std::size_t from, std::size_t bytes) {
  std::string text(bytes, '\0');
  GpuValues<std::uint64_t> copy(bytes / sizeof(std::uint64_t), 0);
  const Registered registered(page, flags);
  const auto* seen = reinterpret_cast<const std::uint64_t*>(registered.seen() + from);
  try {
    copy_numbers(copy.get(), seen, static_cast<unsigned>(bytes / sizeof(std::uint64_t)));
  } catch (const GpuFault&) {
    if (!is_refused_read(cudaDeviceSynchronize())) { throw; }
    return text;
  }
  const auto& numbers = copy.read();
  std::memcpy(text.data(), numbers.data(), numbers.size() * sizeof(std::uint64_t));
  return text;
}

class GpuEngine : public DmaEngine {
 public:
  GpuEngine(std::string gpu, BusView bus, std::chrono::milliseconds limit)
      : gpu_(std::move(gpu)), bus_(std::move(bus)), limit_(limit) {}

  PageRead read(std::uint64_t address, std::size_t bytes) override {
    const auto operation = fmt::format("read {:#x} by GPU {}", address, gpu_);
    return read_in_child(operation, limit_, hang_words(limit_), [&]() -> PageRead {
      try {
        return {load(address, bytes), ""};
      } catch (const NotTold& why) { return {"", why.what()}; }
    });
  }

 private:
  std::string load(std::uint64_t address, std::size_t bytes) const {
    const auto from = address % LockedPage::size;
    bytes = std::min(bytes, LockedPage::size - from);
    if (bus_.own != nullptr && address == bus_.own_address) {
      start();
      return load_by_gpu(bus_.own->data(), cudaHostRegisterMapped, from, bytes);
    }
    const auto page = page_at(bus_, address);  // first, for without a page there is nothing to start for
    start();
    return load_by_gpu(page.get(), cudaHostRegisterMapped | cudaHostRegisterIoMemory, from, bytes);
  }

  void start() const { check_gpu("start GPU " + gpu_, cudaSetDevice(find_gpu(gpu_))); }

  std::string gpu_;
  BusView bus_;
  std::chrono::milliseconds limit_;
};

}  // namespace

std::unique_ptr<DmaEngine> gpu_engine(const std::string& address, BusView bus,
                                      std::chrono::milliseconds limit) {
  return std::make_unique<GpuEngine>(address, std::move(bus), limit);
}

}  // namespace virtrain::canary
