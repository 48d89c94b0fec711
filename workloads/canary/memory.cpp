#include "workloads/canary/memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/error.h"
#include "common/unique_fd.h"

namespace virtrain::canary {
namespace {

constexpr std::size_t page_bytes = 4096;

/// "CANARY0000000000000007CANARY00…", cut at the end.
std::string page_text(const std::string& canary, std::uint64_t number) {
  const auto one = fmt::format("{}{:016x}", canary, number);
  std::string text;
  while (text.size() < page_bytes) { text += one; }
  text.resize(page_bytes);
  return text;
}

}  // namespace

std::uint64_t fill_memory(const std::filesystem::path& path, const std::string& canary) {
  const auto operation = "fill " + path.string();
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) { throw errno_error(operation, errno); }
  const off_t end = ::lseek(fd.get(), 0, SEEK_END);
  if (end <= 0) { throw Error(operation, ErrorCode::io, "it has no bytes"); }
  const auto size = static_cast<std::size_t>(end);
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) { throw errno_error(operation, errno); }
  auto* bytes = static_cast<char*>(mapped);
  for (std::size_t at = 0; at < size; at += page_bytes) {
    const auto text = page_text(canary, at / page_bytes);
    std::memcpy(bytes + at, text.data(), std::min(page_bytes, size - at));
  }
  ::msync(mapped, size, MS_SYNC);
  ::munmap(mapped, size);
  return size;
}

}  // namespace virtrain::canary
