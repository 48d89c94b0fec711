#include "results/tables/hosts_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "results/statistics/statistics.h"

namespace virtrain::results {
namespace {

/// All ranks of one host in one arm of a case.
struct HostRow {
  std::string case_name, arm, host;
  std::vector<double> rates;  ///< one for each trial
  double rate = 0;            ///< their median
  double waiting = 0;
  double of_fastest = 1;  ///< `rate` by that of the fastest host of the arm
};

using Place = std::tuple<std::string, std::string, std::string>;

std::vector<HostRow> rows_of(const std::vector<HostReading>& readings) {
  std::map<Place, std::map<std::int64_t, std::vector<double>>> by_place;
  std::map<Place, std::vector<double>> waiting;
  for (const auto& one : readings) {
    const Place place{one.case_name, one.arm, one.host};
    by_place[place][one.trial].push_back(one.images_per_second);
    waiting[place].push_back(one.waiting);
  }
  std::vector<HostRow> rows;
  std::map<std::pair<std::string, std::string>, double> fastest;
  for (const auto& [place, trials] : by_place) {
    HostRow row{std::get<0>(place), std::get<1>(place), std::get<2>(place), {}};
    for (const auto& [trial, rates] : trials) { row.rates.push_back(mean(rates)); }
    row.rate = quantile(row.rates, 0.5);
    row.waiting = quantile(waiting[place], 0.5);
    auto& best = fastest[{row.case_name, row.arm}];
    best = std::max(best, row.rate);
    rows.push_back(std::move(row));
  }
  for (auto& row : rows) { row.of_fastest = row.rate / fastest[{row.case_name, row.arm}]; }
  return rows;
}

/// 95 %, over the trials; nothing for one alone.
std::optional<Interval> interval_of(const HostRow& row) {
  constexpr double confidence = 0.95;
  return row.rates.size() < 2 ? std::nullopt : std::optional(interval_of_mean(row.rates, confidence));
}

Cell rate_cell(double rate) {
  return {rate, fmt::format("{:.4g}", rate)};
}

Cell limit_cell(const HostRow& row, double Interval::*limit) {
  const auto interval = interval_of(row);
  return interval ? rate_cell((*interval).*limit) : Cell{};
}

/// "case weak-scaling/4, vm: gpu-c computes slowest, at 93 % of gpu-a; over 4 hosts 19.8 to 21.3 images/s a
/// rank, mean 20.7 (95 % 19.6 to 21.8)"
std::string note_of(const std::vector<const HostRow*>& hosts) {
  const auto by_rate = [](const HostRow* a, const HostRow* b) { return a->rate < b->rate; };
  const auto [slowest, fastest] = std::ranges::minmax_element(hosts, by_rate);
  std::vector<double> rates;
  rates.reserve(hosts.size());
  for (const auto* host : hosts) { rates.push_back(host->rate); }
  const auto interval = interval_of_mean(rates, 0.95);
  return fmt::format(
      "case {}, {}: {} computes slowest, at {:.3g} % of {}; over {} hosts {:.4g} to {:.4g} images/s a rank, "
      "mean {:.4g} (95 % {:.4g} to {:.4g})",
      hosts[0]->case_name, hosts[0]->arm, (*slowest)->host, (*slowest)->of_fastest * 100, (*fastest)->host,
      hosts.size(), (*slowest)->rate, (*fastest)->rate, mean(rates), interval.low, interval.high);
}

using H = HostRow;
constexpr ColumnOf<H> host_columns[] = {
    {.key = "case", .head = "case", .cell = [](const H& of) { return cell(of.case_name); }, .wraps = true},
    {.key = "arm", .head = "arm", .cell = [](const H& of) { return cell(of.arm); }, .wraps = true},
    {.key = "host", .head = "host", .cell = [](const H& of) { return cell(of.host); }, .wraps = true},
    {"trials", "trials", [](const H& of) { return cell(std::ssize(of.rates)); }, true},
    {"images_per_second", "images/s a rank", [](const H& of) { return rate_cell(of.rate); }, true},
    {"ci_low", "95 % from", [](const H& of) { return limit_cell(of, &Interval::low); }, true, true},
    {"ci_high", "to", [](const H& of) { return limit_cell(of, &Interval::high); }, true, true},
    {"of_fastest", "of fastest", [](const H& of) { return share_cell(of.of_fastest); }, true},
    {"waiting", "waits", [](const H& of) { return share_cell(of.waiting); }, true}};

}  // namespace

std::vector<HostReading> host_readings(const Store& store, const std::string& experiment) {
  std::vector<HostReading> readings;
  for (auto& work : store.work_on_hosts(experiment)) {
    const double computing = work.seconds - work.waited_seconds;
    if (work.images == 0 || computing <= 0) { continue; }
    readings.push_back({std::move(work.case_name), std::move(work.arm), std::move(work.host), work.trial,
                        static_cast<double>(work.images) / computing, work.waited_seconds / work.seconds});
  }
  return readings;
}

Table hosts_table(const std::vector<HostReading>& readings) {
  const auto rows = rows_of(readings);
  auto table = table_of(host_columns, rows);
  std::map<std::pair<std::string, std::string>, std::vector<const HostRow*>> arms;
  for (const auto& row : rows) { arms[{row.case_name, row.arm}].push_back(&row); }
  for (const auto& [arm, hosts] : arms) {
    if (hosts.size() > 1) { table.notes.push_back(note_of(hosts)); }
  }
  return table;
}

Table hosts_table(const Store& store, const std::string& experiment) {
  store.known_experiment("show", experiment);
  auto table = hosts_table(host_readings(store, experiment));
  table.title =
      "hosts of experiment " + experiment + ": how fast a rank computes while it waits for no other";
  if (table.rows.empty()) { table.notes.emplace_back("this experiment ran on one host, or no trial counts"); }
  return table;
}

}  // namespace virtrain::results
