#include "workloads/canary/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <tuple>

#include "common/error.h"
#include "common/files/file_search.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/nvme.h"
#include "common/text/canary.h"
#include "common/text/text.h"

namespace virtrain::canary {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t page_bytes = 4096, piece_bytes = std::size_t{1} << 20;
constexpr unsigned long is_memory = 0x200, is_prefetchable = 0x2000;  // include/linux/ioport.h

/// Pages of "CANARY0000000000000007CANARY00…", each cut at its end, from that offset on.
std::string piece_text(const std::string& canary, std::uint64_t offset, std::size_t bytes) {
  std::string text;
  for (; text.size() < bytes; offset += page_bytes) {
    const auto one = fmt::format("{}{:016x}", canary, offset / page_bytes);
    const auto end = text.size() + page_bytes;
    while (text.size() < end) { text += one; }
    text.resize(end);
  }
  text.resize(bytes);
  return text;
}

bool write_all(int fd, std::string_view text, off_t offset) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(fd, text.data(), text.size(), offset);
    if (written < 0 && errno == EINTR) { continue; }
    if (written <= 0) { return false; }
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return true;
}

/// Memory of a device: write() is not for it.
bool map_and_copy(int fd, std::string_view text, off_t offset) {
  void* mapped = ::mmap(nullptr, text.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
  if (mapped == MAP_FAILED) { return false; }
  std::memcpy(mapped, text.data(), text.size());
  ::munmap(mapped, text.size());
  return true;
}

}  // namespace

std::vector<MemoryRegion> memory_regions(const fs::path& function) {
  std::vector<MemoryRegion> regions;
  std::size_t number = 0;
  // A line a region: "0x… 0x… 0x000000000014220c", first and last address, flags.
  for (const auto& line : split(read_file(function / "resource").value_or(""), '\n')) {
    const auto words = words_of(line);
    if (words.size() != 3) { continue; }
    const auto value = [&](std::size_t i) {
      return std::strtoull(std::string(words[i]).c_str(), nullptr, 16);
    };
    const auto first = value(0), last = value(1), flags = value(2);
    const auto file = function / fmt::format("resource{}", number++);
    if ((flags & is_memory) != 0 && (flags & is_prefetchable) != 0 && fs::exists(file)) {
      regions.push_back({file, first, last - first + 1});
    }
  }
  return regions;
}

std::vector<fs::path> device_memory(const fs::path& root, const std::string& address) {
  const auto function = root / "sys/bus/pci/devices" / address;
  std::vector<fs::path> memory;
  for (const auto& disk : nvme_namespaces(function)) { memory.push_back(fs::path("/dev") / disk); }
  if (!memory.empty()) { return memory; }
  for (const auto& region : memory_regions(function)) { memory.push_back(region.file); }
  return memory;
}

bool holds_data(const fs::path& disk) {
  const auto operation = "look at " + disk.string();
  const UniqueFd fd(::open(disk.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) { throw errno_error(operation, errno); }
  const auto size = static_cast<off_t>(bytes_of(fd.get()));
  std::string piece(piece_bytes, '\0');
  for (const off_t at : {off_t{0}, std::max<off_t>(0, size - static_cast<off_t>(piece_bytes))}) {
    const ssize_t got = ::pread(fd.get(), piece.data(), piece.size(), at);
    if (got < 0) { throw errno_error(operation, errno); }
    const std::string_view bytes(piece.data(), static_cast<std::size_t>(got));
    // The last piece may begin in the middle of a canary, but not of many.
    const bool is_ours = bytes.substr(0, page_bytes).find(canary_prefix) != std::string_view::npos;
    if (!is_ours && bytes.find_first_not_of('\0') != std::string_view::npos) { return true; }
  }
  return false;
}

Filled fill_memory(const fs::path& path, const std::string& canary, std::chrono::seconds time) {
  const auto operation = "fill " + path.string();
  const auto end = std::chrono::steady_clock::now() + time;
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) { throw errno_error(operation, errno); }
  Filled filled{0, bytes_of(fd.get())};
  if (filled.total == 0) { throw Error(operation, ErrorCode::io, "it has no bytes"); }
  const auto put = path.native().starts_with("/sys/") ? map_and_copy : write_all;
  while (filled.bytes < filled.total && std::chrono::steady_clock::now() < end) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, filled.total - filled.bytes));
    const auto text = piece_text(canary, filled.bytes, bytes);
    if (!put(fd.get(), text, static_cast<off_t>(filled.bytes))) { throw errno_error(operation, errno); }
    filled.bytes += bytes;
  }
  // A search that follows shall read the device and not what this kernel remembers of it.
  // Special files that keep nothing back say EINVAL.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) { throw errno_error(operation, errno); }
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  return filled;
}

namespace {

constexpr const char* functions_folder = "sys/bus/pci/devices";
constexpr int most_regions = 6;  // PCI Local Bus Specification 3.0, 6.2.5
constexpr const char* planted_address = "0000:00:00.0";

SeenFunction see(const fs::path& folder) {
  const auto value = [&](const char* name) {
    return std::string(trim(read_file(folder / name).value_or("")));
  };
  SeenFunction seen{folder.filename(), value("vendor") + ":" + value("device"), {}};
  for (int region = 0; region < most_regions; ++region) {
    const auto name = fmt::format("resource{}", region);
    if (UniqueFd(::open((folder / name).c_str(), O_RDWR | O_CLOEXEC))) { seen.opened.push_back(name); }
  }
  return seen;
}

std::vector<SeenFunction> all_below(const fs::path& root) {
  std::vector<SeenFunction> all;
  for (const auto& function : entries_of(root / functions_folder)) { all.push_back(see(function)); }
  return all;
}

/// The same look at a tree that has one function, whose region is an ordinary file.
bool sees_planted_function() {
  std::string root = "/tmp/virtrain-canary-XXXXXX";
  if (::mkdtemp(root.data()) == nullptr) { throw errno_error("make a folder in /tmp", errno); }
  const auto folder = fs::path(root) / functions_folder / planted_address;
  fs::create_directories(folder);
  for (const char* name : {"vendor", "device", "resource0"}) { std::ofstream(folder / name) << "0x0001\n"; }
  const auto seen = all_below(root);
  fs::remove_all(root);
  return seen.size() == 1 && seen[0].model == "0x0001:0x0001" &&
         seen[0].opened == std::vector<std::string>{"resource0"};
}

}  // namespace

Functions see_functions(const fs::path& root, const std::vector<std::string>& known) {
  Functions seen{.control = sees_planted_function(), .functions = all_below(root)};
  seen.total = seen.functions.size();
  std::erase_if(seen.functions, [&](const auto& one) {
    return std::any_of(known.begin(), known.end(),
                       [&](const auto& model) { return one.model.starts_with(model); });
  });
  seen.others = seen.functions.size();
  seen.opened = static_cast<std::uint64_t>(std::count_if(
      seen.functions.begin(), seen.functions.end(), [](const auto& one) { return !one.opened.empty(); }));
  std::sort(seen.functions.begin(), seen.functions.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.opened.empty(), a.address) < std::tuple(b.opened.empty(), b.address);
  });
  return seen;
}

}  // namespace virtrain::canary
