#pragma once

#include <chrono>
#include <cstddef>
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

/// Calls `read` in a child of this process: a failure that lasts as long as its process, a signal and a hang
/// are the child's alone. This process must have no other thread. Throws Error: the child's; what ended it;
/// after `limit` a timeout that says `hang`. A child that a driver does not let go of is left behind.
PageRead read_in_child(const std::string& operation, std::chrono::milliseconds limit, const std::string& hang,
                       const std::function<PageRead()>& read);

/// The engine of the PCI function with that folder in sysfs; nothing where it is of another model. Throws
/// Error.
using EngineMaker = std::function<std::unique_ptr<DmaEngine>(const std::filesystem::path& function,
                                                             const BusAddress& bus_address)>;

/// That of the first function below root/sys/bus/pci/devices that is a GPU of NVIDIA's or that `others` makes
/// an engine of; nothing where there is none. `own`: the page of this process that it may be told to read,
/// which must outlive it. Throws Error.
std::unique_ptr<DmaEngine> find_engine(const std::filesystem::path& root, const LockedPage& own,
                                       const EngineMaker& others,
                                       const BusAddress& bus_address = &LockedPage::physical_address);

}  // namespace virtrain::canary
