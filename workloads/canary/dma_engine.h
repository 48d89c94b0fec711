#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/model/canary_messages.h"
#include "common/system/locked_page.h"
#include "common/text/canary.h"

// A device of this node as a reader: its engine copies from any address that the host lets it reach.

namespace virtrain::canary {

/// The result of reading one page.
struct PageRead {
  std::string bytes;    ///< zeros or ones where the device was not let there
  std::string refused;  ///< why the device could not be told to read there: nothing is known of the page
};

/// A device that copies where its program tells it to.
class DmaEngine {
 public:
  virtual ~DmaEngine() = default;
  /// Reads from that bus address, at most a page. Throws Error where the engine does not come to an end.
  virtual PageRead read(std::uint64_t address, std::size_t bytes) = 0;
};

/// Where a device finds a page of this process.
using BusAddress = std::function<std::uint64_t(const LockedPage&)>;

/// Some pages of each range, from its first to its last: all pages of a region hold the same canary, and an
/// engine may take a tenth of a second for each. Ends early after that time.
std::vector<BusRead> read_by_device(DmaEngine& engine, const std::vector<Canary>& canaries,
                                    const std::vector<BusRange>& ranges, std::chrono::seconds time);

}  // namespace virtrain::canary
