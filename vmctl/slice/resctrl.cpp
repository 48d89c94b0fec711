#include "vmctl/slice/resctrl.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/text.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  const auto text = read_value(file).value_or("");
  return text.substr(0, text.find_first_of(" \t\n"));
}

template <typename Number>
Number number_in(const std::string& text, int base, Number otherwise) {
  Number number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return failure == std::errc() && end == text.data() + text.size() ? number : otherwise;
}

/// The 0 and the 1 of "    L3:0=fffff;1=fffff".
std::vector<int> domains_in(const fs::path& schemata, const std::string& resource) {
  std::vector<int> domains;
  for (const auto& line : split(read_file(schemata).value_or(""), '\n')) {
    const auto words = split(std::string(trim(line)), ':');
    if (words.size() != 2 || words[0] != resource) { continue; }
    for (const auto& domain : split(words[1], ';')) {
      domains.push_back(number_in(split(domain, '=')[0], 10, 0));
    }
  }
  return domains;
}

std::string line_of(const char* resource, const std::vector<int>& domains, const std::string& value) {
  std::vector<std::string> parts;
  for (const int domain : domains) { parts.push_back(fmt::format("{}={}", domain, value)); }
  return fmt::format("{}:{}\n", resource, join(parts, ";"));
}

void write_value(const fs::path& file, const std::string& value) {
  std::ofstream out(file);
  // One write: the kernel takes what comes with it as a whole, or refuses it.
  if (!(out << value << std::flush)) {
    throw Error("write " + file.string(), ErrorCode::host_unable,
                "the kernel refused " + std::string(trim(value)));
  }
}

}  // namespace

ResctrlFacts read_resctrl(const fs::path& mount) {
  ResctrlFacts facts;
  const auto cache = mount / "info" / "L3";
  const auto memory = mount / "info" / "MB";
  facts.caches = domains_in(mount / "schemata", "L3");
  facts.memories = domains_in(mount / "schemata", "MB");
  if (!facts.caches.empty()) { facts.ways = number_in<std::uint64_t>(first_line(cache / "cbm_mask"), 16, 0); }
  facts.least_ways = std::max(1, number_in(first_line(cache / "min_cbm_bits"), 10, 1));
  if (!facts.memories.empty()) {
    facts.least_bandwidth = number_in(first_line(memory / "min_bandwidth"), 10, 0);
  }
  facts.bandwidth_step = std::max(1, number_in(first_line(memory / "bandwidth_gran"), 10, 1));
  return facts;
}

std::string resctrl_schemata(const ResctrlFacts& facts, const NodeLimits& limits) {
  std::string lines;
  if (limits.llc) {
    const int all = std::popcount(facts.ways);
    const int ways = std::clamp(static_cast<int>(std::ceil(*limits.llc * all - 1e-9)),
                                std::min(facts.least_ways, all), all);
    lines += line_of("L3", facts.caches, fmt::format("{:x}", (std::uint64_t{1} << ways) - 1));
  }
  if (limits.memory_bandwidth) {
    const int steps =
        static_cast<int>(std::ceil(*limits.memory_bandwidth * 100 / facts.bandwidth_step - 1e-9));
    const int percent = std::clamp(steps * facts.bandwidth_step, facts.least_bandwidth, 100);
    lines += line_of("MB", facts.memories, std::to_string(percent));
  }
  return lines;
}

std::string lacks_resctrl(const ResctrlFacts& facts, const NodeLimits& limits) {
  if (limits.llc && facts.ways == 0) {
    return fmt::format(
        "no cache allocation here: {} has no L3 to divide (allowed: a processor with CAT, after "
        "mount -t resctrl resctrl {})",
        resctrl_mount, resctrl_mount);
  }
  if (limits.memory_bandwidth && facts.least_bandwidth == 0) {
    return fmt::format(
        "no memory bandwidth allocation here: {} has no MB in per cent (allowed: a processor with MBA, "
        "after mount -t resctrl resctrl {})",
        resctrl_mount, resctrl_mount);
  }
  return "";
}

void make_resctrl_group(const std::string& name, const NodeLimits& limits, const fs::path& mount) {
  const auto group = mount / name;
  if (::mkdir(group.c_str(), 0755) != 0 && errno != EEXIST) {
    if (errno == ENOSPC) {
      throw Error(
          "make " + group.string(), ErrorCode::busy,
          "the processor has no class of service left (remove other groups there, or use fewer nodes with "
          "limits.llc or limits.memory_bandwidth)");
    }
    throw errno_error("make " + group.string(), errno);
  }
  write_value(group / "schemata", resctrl_schemata(read_resctrl(mount), limits));
}

void join_resctrl_group(const std::string& name, pid_t process, const fs::path& mount) {
  // A thread that is made meanwhile is of its maker's group, which may be the old one: until none is new.
  const auto threads = [process] { return entries_of(fmt::format("/proc/{}/task", process)); };
  std::set<fs::path> moved;
  for (auto found = threads();
       !std::ranges::all_of(found, [&](const auto& thread) { return moved.contains(thread); });
       found = threads()) {
    for (const auto& thread : found) {
      if (!moved.insert(thread).second) { continue; }
      try {
        write_value(mount / name / "tasks", thread.filename().string());
      } catch (const Error&) {
        if (fs::exists(thread)) { throw; }  // else it has ended
      }
    }
  }
}

void remove_resctrl_group(const fs::path& group) {
  if (::rmdir(group.c_str()) != 0 && errno != ENOENT) {
    throw errno_error("remove " + group.string(), errno);
  }
}

std::vector<fs::path> find_resctrl_groups(const fs::path& mount) {
  std::vector<fs::path> groups;
  for (const auto& group : entries_of(mount)) {
    if (group.filename().string().starts_with("vt-")) { groups.push_back(group); }
  }
  return groups;
}

}  // namespace virtrain::vmctl
