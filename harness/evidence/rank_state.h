#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/model/protocol.h"

namespace virtrain::harness {

/// One rank as its own records describe it. Times are on the coordinator's clock.
struct RankState {
  std::optional<protocol::Hello> hello;
  std::optional<protocol::Ready> ready;
  std::optional<protocol::Result> result;
  struct Window {
    std::int64_t t_ns = 0;  ///< end
    std::int64_t step = 0;
    std::int64_t images = 0;
    double seconds = 0;
    std::optional<double> loss;
    std::int64_t received_ns = 0;  ///< when we heard of it, which no clock of the node's can change
  };
  std::vector<Window> samples;
  std::vector<Window> later;                   ///< single steps after the counted ones
  std::optional<std::int64_t> warmed_up_ns;    ///< when we heard of its latest warm-up step
  std::optional<std::int64_t> first_start_ns;  ///< when its first step (warm-up or counted) began
  std::size_t node = 0;                        ///< index in the job's nodes
  std::int64_t warmups = 0;                    ///< records of warm-up steps
  std::size_t unplanned_bytes = 0;             ///< of its records whose number the plan does not say
};

}  // namespace virtrain::harness
