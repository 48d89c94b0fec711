#include "common/system/locked_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/error.h"
#include "common/files/unique_fd.h"

namespace virtrain {

LockedPage::LockedPage() {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE;
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) { throw errno_error("lock a page of memory", errno); }
  bytes_ = static_cast<char*>(mapped);
  std::memset(bytes_, 0, size);  // what was never written to has no place of its own yet
}

LockedPage::~LockedPage() {
  ::munmap(bytes_, size);
}

std::uint64_t LockedPage::physical_address() const {
  // Documentation/admin-guide/mm/pagemap.rst: a word for each page, its lower 55 bits the page's number.
  constexpr std::uint64_t number_bits = (std::uint64_t{1} << 55) - 1;
  constexpr const char* operation = "ask the kernel for the physical address of a page";
  const UniqueFd fd(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::uint64_t entry = 0;
  const auto offset = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(bytes_) / size * sizeof entry);
  if (!fd || ::pread(fd.get(), &entry, sizeof entry, offset) != sizeof entry) {
    throw errno_error(operation, errno);
  }
  if ((entry & number_bits) == 0) { throw Error(operation, ErrorCode::io, "it tells root only"); }
  return (entry & number_bits) * size;
}

}  // namespace virtrain
