#include "workloads/resnet50/trace.h"

#include "common/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace virtrain::resnet50 {
namespace {

using nlohmann::json;

struct Interval {
  std::int64_t begin, end;
};

/// The moments of all spans of a kind, as intervals in order that do not touch.
std::vector<Interval> moments(const std::vector<Span>& spans, Span::Kind kind) {
  std::vector<Interval> all;
  for (const Span& span : spans) {
    if (span.kind == kind && span.end_ns > span.begin_ns) all.push_back({span.begin_ns, span.end_ns});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<Interval> merged;
  for (const Interval& next : all) {
    if (!merged.empty() && next.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, next.end);
    } else {
      merged.push_back(next);
    }
  }
  return merged;
}

std::int64_t length(const std::vector<Interval>& intervals) {
  std::int64_t sum = 0;
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

std::int64_t common_length(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max<std::int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return sum;
}

json name_of_thread(int rank, Span::Kind kind, const char* name) {
  return {{"ph", "M"},
          {"name", "thread_name"},
          {"pid", rank},
          {"tid", static_cast<int>(kind)},
          {"args", {{"name", name}}}};
}

}  // namespace

Exposure exposure(const std::vector<Span>& spans) {
  const std::vector<Interval> communication = moments(spans, Span::Kind::communication);
  const std::int64_t total = length(communication);
  return {total, total - common_length(communication, moments(spans, Span::Kind::compute))};
}

std::string trace_json(const std::vector<Span>& spans, int rank) {
  json events = json::array();
  events.push_back({{"ph", "M"},
                    {"name", "process_name"},
                    {"pid", rank},
                    {"tid", 0},
                    {"args", {{"name", "rank " + std::to_string(rank)}}}});
  events.push_back(name_of_thread(rank, Span::Kind::compute, "compute"));
  events.push_back(name_of_thread(rank, Span::Kind::communication, "communication"));
  for (const Span& span : spans) {
    events.push_back({{"ph", "X"},
                      {"name", span.name},
                      {"cat", span.kind == Span::Kind::compute ? "compute" : "communication"},
                      {"pid", rank},
                      {"tid", static_cast<int>(span.kind)},
                      {"ts", static_cast<double>(span.begin_ns) / 1000},
                      {"dur", static_cast<double>(span.end_ns - span.begin_ns) / 1000},
                      {"args", {{"step", span.step}}}});
  }
  const Exposure seen = exposure(spans);
  const json trace{{"traceEvents", events},
                   {"displayTimeUnit", "ms"},
                   {"otherData",
                    {{"rank", rank},
                     {"communication_ms", static_cast<double>(seen.communication_ns) * 1e-6},
                     {"exposed_communication_ms", static_cast<double>(seen.exposed_ns) * 1e-6}}}};
  return trace.dump() + "\n";
}

std::string trace_path(const std::string& file, int rank, int size) {
  if (size == 1) return file;
  const std::filesystem::path path(file);
  return (path.parent_path() /
          (path.stem().string() + "." + std::to_string(rank) + path.extension().string()))
      .string();
}

void write_trace(const std::string& path, const std::vector<Span>& spans, int rank) {
  write_file_atomically(path, trace_json(spans, rank));
}

}  // namespace virtrain::resnet50
