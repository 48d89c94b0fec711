#include "harness/plan/devices/lack.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {

std::vector<std::string> lines_of(const std::vector<Lack>& lacks) {
  std::vector<std::string> lines;
  std::vector<std::string> told;
  for (const auto& lack : lacks) {
    if (lack.resource.empty()) {
      lines.push_back(lack.words);
      continue;
    }
    if (contains(told, lack.resource)) { continue; }
    told.push_back(lack.resource);
    const auto is_alike = [&](const Lack& other) { return other.resource == lack.resource; };
    const auto* largest = &lack;
    for (const auto& other : lacks) {
      if (is_alike(other) && other.demand > largest->demand) { largest = &other; }
    }
    const auto smaller = static_cast<std::size_t>(std::ranges::count_if(lacks, is_alike)) - 1;
    lines.push_back(largest->words);
    if (smaller == 0) { continue; }
    lines.back() += fmt::format("; {} for {} {} not met either", counted(smaller, "smaller demand"),
                                lack.resource, smaller == 1 ? "is" : "are");
  }
  return lines;
}

namespace {

std::string noun(const Devices& devices, const std::string& vgpu_type) {
  switch (devices.kind) {
    case DeviceKind::vgpu:
      return "vGPU of type " + vgpu_type;
    case DeviceKind::vf:
      return "virtual function";
    case DeviceKind::passthrough:
    case DeviceKind::none:
      break;
  }
  return devices.select.addresses.empty() ? "GPU" : "device";
}

/// "2 vGPUs of type A100-20C", "1 vGPU of type A100-20C".
std::string counted_devices(std::size_t number, const std::string& what) {
  const auto end = std::min(what.find(" of "), what.size());
  return counted(number, what.substr(0, end)) + what.substr(end);
}

}  // namespace

DeviceShortage::Count& DeviceShortage::count(const std::string& what, const std::string& select,
                                             const Offer& offer) {
  const auto same =
      std::find_if(counts_.begin(), counts_.end(), [&](const Count& one) { return one.what == what; });
  if (same != counts_.end()) { return *same; }
  counts_.push_back({what, select, 0, 0, offer.slots.size(), offer.in_use, offer.reasons});
  return counts_.back();
}

void DeviceShortage::add(const Devices& devices, const std::string& vgpu_type, std::size_t wanted,
                         std::size_t got, const Offer& offer) {
  auto& sum = count(noun(devices, vgpu_type), "devices.select", offer);
  sum.wanted += wanted;
  sum.got += got;
}

void DeviceShortage::add_nics(std::size_t wanted, std::size_t got, const Offer& offer) {
  auto& sum = count("adapter", "devices.nics.select", offer);
  sum.wanted += wanted;
  sum.got += got;
}

bool DeviceShortage::is_only_busy() const {
  return std::all_of(counts_.begin(), counts_.end(),
                     [](const Count& sum) { return sum.wanted <= sum.got + sum.in_use; });
}

std::vector<Lack> DeviceShortage::problems(const std::string& hostname) const {
  std::vector<Lack> out;
  for (const auto& sum : counts_) {
    if (sum.got >= sum.wanted) { continue; }
    std::string words;
    if (sum.wanted <= sum.offered) {
      words = fmt::format(
          "needs {}, and of the {} that host {} has only {} can be given out together (an IOMMU "
          "group goes to one VM, and a card has time-sliced vGPUs of one type)",
          counted_devices(sum.wanted, sum.what), sum.offered, hostname, sum.got);
    } else {
      words = fmt::format("needs {}, host {} has {} that {} allows", counted_devices(sum.wanted, sum.what),
                          hostname, sum.offered, sum.select);
    }
    words += sum.reasons.empty() ? " (virtrain doctor --devices says more)" : ": " + join(sum.reasons, "; ");
    // Why devices cannot be given differs between cases, and how many there are does not.
    const bool is_plain = sum.reasons.empty() && sum.wanted > sum.offered;
    out.emplace_back(std::move(words), is_plain ? sum.what + "s" : "", static_cast<double>(sum.wanted));
  }
  return out;
}

}  // namespace virtrain::harness
