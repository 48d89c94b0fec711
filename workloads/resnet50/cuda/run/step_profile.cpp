#include "workloads/resnet50/cuda/run/step_profile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <deque>
#include <fstream>

#include "common/error.h"
#include "workloads/resnet50/cuda/program/step_program.h"

namespace virtrain::resnet50::cuda {
namespace {

constexpr int steps_before = 2;
constexpr int timed_steps = 7;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

std::vector<OperationTime> time_operations(StepExecutor& executor) {
  for (int step = 0; step < steps_before; ++step) {
    executor.run_alone([](const Operation&, int) {});
  }
  std::vector<OperationTime> times;
  executor.program().for_each([&](const Operation& operation, int micro_batch) {
    if (!operation.communicates()) { times.push_back({&operation, micro_batch, 0}); }
  });
  std::deque<GpuEvent> ends;  // they cannot be moved
  for (std::size_t i = 0; i <= times.size(); ++i) { ends.emplace_back(GpuEvent::Timing::on); }
  std::vector<std::vector<double>> seconds(times.size());
  for (int step = 0; step < timed_steps; ++step) {
    std::size_t next = 0;
    // Behind a step that is not timed: on a stream that had run empty the first operations would wait for the
    // host.
    executor.run_alone([](const Operation&, int) {});
    ends[next++].record(executor.stream());
    executor.run_alone([&](const Operation&, int) { ends[next++].record(executor.stream()); });
    ends.back().wait();
    for (std::size_t i = 0; i < times.size(); ++i) {
      seconds[i].push_back(seconds_between(ends[i], ends[i + 1]));
    }
  }
  for (std::size_t i = 0; i < times.size(); ++i) { times[i].seconds = median(seconds[i]); }
  return times;
}

SiteSeconds seconds_by_site(const std::vector<OperationTime>& times) {
  SiteSeconds sums;
  for (const OperationTime& time : times) {
    for (const std::string& site : time.operation->sites) { sums[site] += time.seconds; }
  }
  return sums;
}

void write_profile(const std::string& file, const StepExecutor& executor,
                   const std::vector<OperationTime>& times) {
  std::ofstream out(file);
  for (const OperationTime& time : times) {
    const Operation& operation = *time.operation;
    const std::int64_t bytes = traffic_bytes(executor.program(), operation);
    nlohmann::json line{{"name", operation.name},
                        {"pass", operation.pass},
                        {"micro_batch", time.micro_batch},
                        {"seconds", time.seconds},
                        {"bytes", bytes},
                        {"bytes_per_second", static_cast<double>(bytes) / time.seconds},
                        {"graph", nullptr},
                        {"engine", nullptr}};
    if (operation.graph) {
      line["graph"] = to_string(operation.graph->spec);
      line["engine"] = executor.engine_of(*operation.graph);
    }
    out << line.dump() << '\n';
  }
  if (!out.flush()) { throw Error("write " + file, ErrorCode::io, "cannot be written"); }
}

}  // namespace virtrain::resnet50::cuda
