#pragma once

#include <nlohmann/json.hpp>

#include <vector>

#include "common/text/described_json.h"
#include "harness/evidence/rank_output.h"

namespace virtrain::test {

/// The record that the coordinator makes of this JSON, with what of it fits.
template <typename Record>
Record said(const nlohmann::json& fields) {
  Record record;
  read_record(fields, record);
  return record;
}

/// A rank by the JSON of its records, to be changed before the coordinator reads it.
struct SaidRank {
  nlohmann::json hello, ready, result;
  std::vector<harness::RankState::Window> samples = {};

  harness::RankState state() const {
    harness::RankState state;
    state.hello = said<protocol::Hello>(hello);
    state.ready = said<protocol::Ready>(ready);
    state.result = said<protocol::Result>(result);
    state.samples = samples;
    return state;
  }
};

}  // namespace virtrain::test
