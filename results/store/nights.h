#pragma once

#include <cstdint>
#include <string>

#include "results/store/records.h"

// Described are the columns of queries/nights.sql and queries/night_figures.sql, in their order.
namespace virtrain::results {

/// One experiment as a night of its scenario.
struct Night {
  std::int64_t number = 0;  ///< in the order of storing, which no clock can turn round
  std::string experiment = {};
  std::string scenario = {};
  std::string scenario_text = {};
  std::string label = {};
  std::string started_at = {};
  std::string host_name = {};
  std::string virtrain_version = {};
  nlohmann::json daemon_versions = nullptr;
  bool imported = false;
};
BOOST_DESCRIBE_STRUCT(Night, (),
                      (number, experiment, scenario, scenario_text, label, started_at, host_name,
                       virtrain_version, daemon_versions, imported))

/// One figure of one night: the mean over the valid finished trials of a case in an arm.
struct NightFigure {
  std::int64_t night = 0;  ///< Night::number
  std::string case_name = {};
  std::string arm = {};
  std::string kind = {};  ///< throughput, ratio, efficiency, step_p99, boot, probe
  std::string figure =
      {};  ///< its name: images_per_second, "ratio of tokens/s", probe.NAME; nothing reads it back
  std::string unit = {};
  double value = 0;
  std::string sizes = {};  ///< of messages, in bytes, that a probe's mean is over: "1024,8", in any order
  std::string apart =
      {};  ///< what tells it from another of its name, which may be alone: ".2-nodes.in-place"
};
BOOST_DESCRIBE_STRUCT(NightFigure, (), (night, case_name, arm, kind, figure, unit, value, sizes, apart))

/// Rows that thin_nights() removed.
struct Thinned {
  std::int64_t nights = 0;
  std::int64_t samples = 0;
  std::int64_t readings = 0;  ///< of telemetry
  std::int64_t freed_bytes = 0;
};

/// The samples and telemetry of a night: how many, and which was stored last.
struct StoredReadings {
  std::int64_t samples = 0, last_sample = 0;
  std::int64_t readings = 0, last_reading = 0;
};
BOOST_DESCRIBE_STRUCT(StoredReadings, (), (samples, last_sample, readings, last_reading))

/// Somebody took a change for the new normal.
struct Acknowledgement {
  std::string change = {};  ///< id of the change
  std::string why = {};
  std::string acknowledged_at = {};
};
BOOST_DESCRIBE_STRUCT(Acknowledgement, (), (change, why, acknowledged_at))

}  // namespace virtrain::results
