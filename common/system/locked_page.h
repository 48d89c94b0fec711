#pragma once

#include <cstddef>
#include <cstdint>

namespace virtrain {

/// A page of this process that stays in memory, for devices to be pointed at.
class LockedPage {
 public:
  static constexpr std::size_t size = 4096;

  /// Zeros. Throws Error.
  LockedPage();
  ~LockedPage();
  LockedPage(const LockedPage&) = delete;
  LockedPage& operator=(const LockedPage&) = delete;

  char* data() const { return bytes_; }
  /// Its physical address, which the kernel tells root only. Throws Error.
  std::uint64_t physical_address() const;

 private:
  char* bytes_;
};

}  // namespace virtrain
