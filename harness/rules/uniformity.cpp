#include "harness/rules/uniformity.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

/// Facts that each host has of its own.
bool is_of_one_host(const std::string& field) {
  return field == "hostname" || field == "boot_id" || field == "gpu_uuid";
}

std::string value_of(const HostFacts& facts, const std::string& field) {
  const auto found = facts.find(field);
  return found == facts.end() ? "" : found->second;
}

std::string words_of(const std::string& value) {
  constexpr std::size_t longest = 80;
  return value.empty() ? "unknown" : excerpt(value, longest);
}

}  // namespace

std::vector<HostDifference> differences_of(const ByHost<HostFacts>& facts) {
  std::set<std::string> fields;
  for (const auto& [host, said] : facts) {
    for (const auto& [field, value] : said) { fields.insert(field); }
  }
  std::vector<HostDifference> differences;
  for (const auto& field : fields) {
    if (is_of_one_host(field)) { continue; }
    std::map<std::string, std::size_t> votes;
    for (const auto& [host, said] : facts) { ++votes[value_of(said, field)]; }
    if (votes.size() < 2) { continue; }
    // Where as many say the one as the other, the first host speaks for them.
    auto usual = value_of(facts.begin()->second, field);
    for (const auto& [value, count] : votes) {
      if (count > votes[usual]) { usual = value; }
    }
    for (const auto& [host, said] : facts) {
      const auto value = value_of(said, field);
      if (value != usual) { differences.push_back({field, host, value, usual}); }
    }
  }
  return differences;
}

std::string to_sentence(const HostDifference& difference) {
  return fmt::format("{}: {} is {}, elsewhere {}", difference.host, difference.field,
                     words_of(difference.value), words_of(difference.others));
}

HostFacts common_facts(const ByHost<HostFacts>& facts) {
  std::vector<std::string> fields;
  for (const auto& one : differences_of(facts)) { add_once(fields, one.field); }
  HostFacts common = facts.begin()->second;
  std::erase_if(common, [&](const auto& fact) {
    return contains(fields, fact.first) || (facts.size() > 1 && is_of_one_host(fact.first));
  });
  if (!fields.empty()) { common["hosts_differ"] = join(fields, ", "); }
  return common;
}

}  // namespace virtrain::harness
