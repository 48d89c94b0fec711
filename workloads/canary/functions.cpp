#include "workloads/canary/functions.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <tuple>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"

namespace virtrain::canary {
namespace {

namespace fs = std::filesystem;

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
