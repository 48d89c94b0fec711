#include "harness/evidence/gpu_record.h"

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "harness/evidence/said.h"

namespace virtrain::harness {
namespace {

using nlohmann::json;

void take(const json& value, std::optional<bool>& into) {
  if (value.is_boolean()) { into = value.get<bool>(); }
}

void take(const json& value, std::optional<std::int64_t>& into) {
  // Counts: a guest may say any number, and their differences are taken.
  const auto number = value.is_number_integer() ? value.get<std::int64_t>() : -1;
  if (number >= 0) { into = number; }
}

void take(const json& value, std::optional<double>& into) {
  if (value.is_number()) { into = value.get<double>(); }
}

void take(const json& value, std::optional<std::string>& into) {
  if (value.is_string()) { into = printable(value.get<std::string>()); }
}

void take(const json& value, std::optional<std::vector<std::string>>& into) {
  if (!value.is_array()) { return; }
  auto& list = into.emplace();
  for (const auto& word : value) {
    if (word.is_string()) { list.push_back(printable(word.get<std::string>())); }
  }
}

}  // namespace

std::optional<GpuRecord> read_gpu_record(const std::optional<json>& record) {
  const auto& gpu = member(said(record), "gpu");
  if (!gpu.is_object()) { return std::nullopt; }
  GpuRecord out;
  using Members = boost::describe::describe_members<GpuRecord, boost::describe::mod_public>;
  boost::mp11::mp_for_each<Members>([&](auto field) { take(member(gpu, field.name), out.*field.pointer); });
  return out;
}

}  // namespace virtrain::harness
