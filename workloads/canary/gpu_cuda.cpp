#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "workloads/canary/gpu.h"
#include "workloads/canary/kernels.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/program.h"
#include "workloads/common/watchdog.h"

namespace virtrain::canary {
namespace {

/// CUDA's number of the GPU at that PCI address. Throws Error.
int find_gpu(const std::string& address) {
  int gpu = 0;
  check_gpu("find GPU " + address + " by CUDA", cudaDeviceGetByPCIBusId(&gpu, address.c_str()));
  return gpu;
}

/// Error message for a GPU that takes longer than that.
std::string hang_words(std::chrono::milliseconds limit) {
  return fmt::format(
      "the GPU did not finish within {} s: it hangs, or is gone (nvidia-smi and the kernel's log say more)",
      std::chrono::ceil<std::chrono::seconds>(limit).count());
}

struct FreeOnGpu {
  void operator()(std::byte* memory) const { ignore_gpu(cudaFree(memory)); }
};
using GpuMemory = std::unique_ptr<std::byte, FreeOnGpu>;

/// Allocates GPU memory; nothing where none is left. Throws Error.
GpuMemory try_to_allocate(std::uint64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    ignore_gpu(status);
    return nullptr;
  }
  check_gpu("allocate the GPU's memory", status);
  return GpuMemory(static_cast<std::byte*>(memory));
}

/// Values in memory of the GPU. Throws Error.
template <typename T>
class GpuValues {
 public:
  GpuValues(std::size_t count, const T& each) : host_(count, each), memory_(try_to_allocate(bytes())) {
    if (!memory_) {
      throw Error("allocate the GPU's memory", ErrorCode::busy, "no memory of the GPU is free");
    }
    check_gpu("write to the GPU", cudaMemcpy(get(), host_.data(), bytes(), cudaMemcpyHostToDevice));
  }
  T* get() const { return reinterpret_cast<T*>(memory_.get()); }
  const std::vector<T>& read() {
    check_gpu("read from the GPU", cudaMemcpy(host_.data(), get(), bytes(), cudaMemcpyDeviceToHost));
    return host_;
  }

 private:
  std::size_t bytes() const { return host_.size() * sizeof(T); }

  std::vector<T> host_;
  GpuMemory memory_;
};

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

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr std::uint64_t gpu_page_bytes = page_words * sizeof(Word);
/// The driver gives large pieces whole, and what is left between them in small ones.
constexpr std::uint64_t largest_piece = std::uint64_t{256} << 20, smallest_piece = std::uint64_t{64} << 10;
constexpr seconds time_to_find{60}, time_to_end{10};
/// Starts of as many blocks as there are multiprocessors, until each has had one.
constexpr int most_rounds = 8;

Watchdog::Report report_hang(seconds limit) {
  return [limit](const std::string& doing) { report_failure("virtrain-canary", doing, hang_words(limit)); };
}

struct Piece {
  GpuMemory memory;
  std::uint64_t words = 0, offset = 0;

  Word* get() const { return reinterpret_cast<Word*>(memory.get()); }
};

/// Hits of the first block on each multiprocessor, by the multiprocessor's number.
using Seen = std::map<unsigned, Hits>;

class Gpu {
 public:
  Gpu(const std::string& doing, const std::string& address, seconds time)
      : operation_(doing + " GPU " + address),
        end_(Clock::now() + time),
        watchdog_(time + time_to_end, report_hang(time + time_to_end)) {
    watchdog_.expect(operation_);
    const int gpu = find_gpu(address);
    check_gpu(operation_, cudaSetDevice(gpu));
    check_gpu(operation_, cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, gpu));
    check_gpu(operation_,
              cudaDeviceGetAttribute(&shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu));
    int registers = 0;
    check_gpu(operation_, cudaDeviceGetAttribute(&registers, cudaDevAttrMaxRegistersPerMultiprocessor, gpu));
    register_bytes_ = static_cast<std::uint64_t>(registers) * sizeof(std::uint32_t);
    std::size_t free = 0, total = 0;
    check_gpu(operation_, cudaMemGetInfo(&free, &total));
    device_bytes_ = total;
    load_kernels();
  }

  std::uint64_t shared_bytes() const { return static_cast<std::uint64_t>(shared_bytes_); }
  std::uint64_t register_bytes() const { return register_bytes_; }
  std::uint64_t total_bytes() const {
    return device_bytes_ + static_cast<std::uint64_t>(multiprocessors_) * (shared_bytes() + register_bytes_);
  }
  bool has_time() const { return Clock::now() < end_; }

  std::vector<Piece> allocate(std::uint64_t most_bytes) const {
    std::vector<Piece> pieces;
    std::uint64_t taken = 0;
    for (std::uint64_t size = largest_piece; size >= smallest_piece && has_time();) {
      const auto bytes = std::min(size, (most_bytes - taken) / gpu_page_bytes * gpu_page_bytes);
      if (bytes == 0) { break; }
      auto memory = try_to_allocate(bytes);
      if (memory) {
        pieces.push_back({std::move(memory), bytes / sizeof(Word), taken / sizeof(Word)});
        taken += bytes;
      } else {
        size /= 2;
      }
    }
    if (pieces.empty()) {
      throw Error(operation_, ErrorCode::busy,
                  fmt::format("none of its {} bytes of memory are free (nvidia-smi lists who has them)",
                              device_bytes_));
    }
    return pieces;
  }

  Seen on_each(decltype(&find_shared) kernel, const CanaryWords& canary) const {
    return on_each([&](unsigned blocks, SharedHits* seen) {
      kernel(blocks, static_cast<unsigned>(shared_bytes_), canary, seen);
    });
  }
  Seen fill_registers_with(const CanaryWords& canary) const {
    const GpuValues<std::uint64_t> word(1, register_word(canary));
    return on_each([&](unsigned blocks, SharedHits* seen) { fill_registers(blocks, word.get(), seen); });
  }
  Seen find_in_registers(const CanaryWords& canary) const {
    const GpuValues<std::uint64_t> nothing(1, 0);  // the word itself would come through registers
    return on_each([&](unsigned blocks, SharedHits* seen) {
      find_registers(blocks, nothing.get(), register_word(canary), seen);
    });
  }

 private:
  Seen on_each(const std::function<void(unsigned blocks, SharedHits* seen)>& kernel) const {
    Seen seen;
    const auto blocks = static_cast<std::size_t>(multiprocessors_);
    for (int round = 0; round < most_rounds && seen.size() < blocks; ++round) {
      GpuValues<SharedHits> values(blocks, {no_hits, 0});
      kernel(static_cast<unsigned>(blocks), values.get());
      for (const auto& one : values.read()) { seen.emplace(one.multiprocessor, one.hits); }
    }
    return seen;
  }

  std::string operation_;
  Clock::time_point end_;
  Watchdog watchdog_;
  int multiprocessors_ = 0, shared_bytes_ = 0;
  std::uint64_t device_bytes_ = 0, register_bytes_ = 0;
};

class Search {
 public:
  Search(const std::string& address, const std::vector<Canary>& canaries, const SearchLimits& limits)
      : gpu_("search", address, limits.time), path_(gpu_path(address)), canaries_(canaries) {
    report_.total_bytes = gpu_.total_bytes();
    // First what other kernels would overwrite: the cache of a multiprocessor lies in the same memory.
    search_on_chip();
    search_device(limits.bytes);
  }
  SearchReport report() && { return std::move(report_); }

 private:
  /// Registers before shared memory: each kernel overwrites those that it needs.
  void search_on_chip() {
    std::vector<Seen> looked_registers, looked_shared;
    for (const auto& canary : canaries_) {
      looked_registers.push_back(gpu_.find_in_registers(words_of_canary(canary.text)));
    }
    for (const auto& canary : canaries_) {
      looked_shared.push_back(gpu_.on_each(find_shared, words_of_canary(canary.text)));
    }
    for (std::size_t i = 0; i < canaries_.size(); ++i) {
      add_found(canaries_[i], "/registers", gpu_.register_bytes(), looked_registers[i]);
      add_found(canaries_[i], "/shared_memory", gpu_.shared_bytes(), looked_shared[i]);
    }
    // In the order in which fill_gpu() leaves them.
    const auto control = words_of_canary(make_canary("control").text);
    gpu_.fill_registers_with(control);
    gpu_.on_each(fill_shared, control);
    const auto was_looked_at = [](const std::vector<Seen>& looked, unsigned number) {
      return std::all_of(looked.begin(), looked.end(),
                         [number](const Seen& seen) { return seen.contains(number); });
    };
    for (const auto& [number, hits] : gpu_.find_in_registers(control)) {
      if (!was_looked_at(looked_registers, number)) { continue; }
      report_.scanned_bytes +=
          std::min<std::uint64_t>(gpu_.register_bytes(), hits.count * sizeof(std::uint64_t));
    }
    const auto expected = copies_in(gpu_.shared_bytes() / sizeof(Word));
    for (const auto& [number, hits] : gpu_.on_each(find_shared, control)) {
      if (hits.count == expected && was_looked_at(looked_shared, number)) {
        report_.scanned_bytes += gpu_.shared_bytes();
      }
    }
  }

  /// `bytes` of each multiprocessor, one after the other. Of registers it is not known which one.
  void add_found(const Canary& canary, const char* where, std::uint64_t bytes, const Seen& seen) {
    FoundCanary found{canary.name, path_ + where};
    for (const auto& [number, hits] : seen) {
      if (hits.count == 0) { continue; }
      const auto start = number * bytes;
      const bool has_place = hits.first <= hits.last;
      if (found.count == 0) { found.first = start + (has_place ? hits.first * sizeof(Word) : 0); }
      found.last = start + hits.last * sizeof(Word);
      found.count += hits.count;
    }
    if (found.count > 0) { report_.found.push_back(std::move(found)); }
  }

  void search_device(std::uint64_t most_bytes) {
    std::vector<GpuValues<Hits>> hits;
    for (std::size_t i = 0; i < canaries_.size(); ++i) { hits.emplace_back(1, no_hits); }
    for (const auto& piece : gpu_.allocate(most_bytes)) {
      if (!gpu_.has_time()) { break; }
      for (std::size_t i = 0; i < canaries_.size(); ++i) {
        find_words(piece.get(), piece.words, piece.offset, words_of_canary(canaries_[i].text), hits[i].get());
      }
      report_.scanned_bytes += piece.words * sizeof(Word);
    }
    for (std::size_t i = 0; i < canaries_.size(); ++i) {
      const auto all = hits[i].read()[0];
      if (all.count == 0) { continue; }
      report_.found.push_back(
          {canaries_[i].name, path_, all.count, all.first * sizeof(Word), all.last * sizeof(Word)});
    }
  }

  Gpu gpu_;
  std::string path_;
  const std::vector<Canary>& canaries_;
  SearchReport report_;
};

}  // namespace

std::unique_ptr<DmaEngine> gpu_engine(const std::string& address, BusView bus,
                                      std::chrono::milliseconds limit) {
  return std::make_unique<GpuEngine>(address, std::move(bus), limit);
}

std::string gpu_lack(const std::string& address) {
  Watchdog watchdog(time_to_find, report_hang(time_to_find));
  watchdog.expect("find GPU " + address);
  try {
    find_gpu(address);
    return "";
  } catch (const GpuFault&) { throw; } catch (const Error& error) {
    return error.what();
  }
}

Filled fill_gpu(const std::string& address, const std::string& canary, seconds time) {
  const Gpu gpu("fill", address, time);
  const auto words = words_of_canary(canary);
  GpuValues<Hits> hits(1, no_hits);
  Filled filled{0, gpu.total_bytes()};
  std::uint64_t copies = 0;
  for (const auto& piece : gpu.allocate(filled.total)) {
    if (!gpu.has_time()) { break; }
    fill_words(piece.get(), piece.words, piece.offset / page_words, words);
    find_words(piece.get(), piece.words, piece.offset, words, hits.get());
    filled.bytes += piece.words * sizeof(Word);
    copies += copies_in(piece.words);
  }
  filled.read_back = copies > 0 && hits.read()[0].count == copies;
  // Last, for other kernels would overwrite both: the cache of a multiprocessor lies in its shared memory.
  filled.bytes +=
      gpu.fill_registers_with(words).size() * std::min(gpu.register_bytes(), searched_register_bytes);
  filled.bytes += gpu.on_each(fill_shared, words).size() * gpu.shared_bytes();
  return filled;
}

SearchReport search_gpu(const std::string& address, const std::vector<Canary>& canaries,
                        const SearchLimits& limits) {
  return Search(address, canaries, limits).report();
}

}  // namespace virtrain::canary
