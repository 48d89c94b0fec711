#include "workloads/resnet50/training/trace.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/files/new_file.h"

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
    if (span.kind == kind && span.end_ns > span.begin_ns) { all.push_back({span.begin_ns, span.end_ns}); }
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
  for (const Interval& interval : intervals) { sum += interval.end - interval.begin; }
  return sum;
}

/// The parts of `a` that are in none of `b`.
std::vector<Interval> without(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> rest;
  std::size_t first = 0;  // of b that may reach into what comes
  for (const auto& [begin, end] : a) {
    while (first < b.size() && b[first].end <= begin) { ++first; }
    std::int64_t from = begin;
    for (std::size_t i = first; i < b.size() && b[i].begin < end; ++i) {
      if (b[i].begin > from) { rest.push_back({from, b[i].begin}); }
      from = b[i].end;
    }
    if (from < end) { rest.push_back({from, end}); }
  }
  return rest;
}

/// When a rank communicated and computed nothing.
std::vector<Interval> exposed(const std::vector<Span>& spans) {
  return without(moments(spans, Span::Kind::communication), moments(spans, Span::Kind::compute));
}

/// A viewer's threads: one for each kind of span, by its number, and what comes of the two.
constexpr std::array threads{"compute", "communication", "exposed communication"};
constexpr std::size_t exposed_thread = 2;

json event(int rank, std::size_t thread, const std::string& name, const Interval& time) {
  return {{"ph", "X"},
          {"name", name},
          {"cat", threads[thread]},
          {"pid", rank},
          {"tid", thread},
          {"ts", static_cast<double>(time.begin) / 1000},
          {"dur", static_cast<double>(time.end - time.begin) / 1000}};
}

}  // namespace

Exposure exposure(const std::vector<Span>& spans) {
  return {length(moments(spans, Span::Kind::communication)), length(exposed(spans))};
}

std::string trace_json(const std::vector<Span>& spans, int rank) {
  json events = json::array();
  events.push_back({{"ph", "M"},
                    {"name", "process_name"},
                    {"pid", rank},
                    {"tid", 0},
                    {"args", {{"name", "rank " + std::to_string(rank)}}}});
  for (std::size_t thread = 0; thread < threads.size(); ++thread) {
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", rank},
                      {"tid", thread},
                      {"args", {{"name", threads[thread]}}}});
  }
  for (const Span& span : spans) {
    events.push_back(
        event(rank, static_cast<std::size_t>(span.kind), span.name, {span.begin_ns, span.end_ns}));
    events.back()["args"] = {{"step", span.step}};
  }
  for (const Interval& time : exposed(spans)) {
    events.push_back(event(rank, exposed_thread, "exposed", time));
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
  if (size == 1) { return file; }
  const std::filesystem::path path(file);
  return (path.parent_path() /
          (path.stem().string() + "." + std::to_string(rank) + path.extension().string()))
      .string();
}

void write_trace(const std::string& path, const std::vector<Span>& spans, int rank) {
  write_file_atomically(path, trace_json(spans, rank));
}

}  // namespace virtrain::resnet50
