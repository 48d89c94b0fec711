#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/model/trial_key.h"
#include "harness/scenario/decode/arms.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// One point of a sweep.
struct SweepPoint {
  SweptPoint point;  ///< empty: there is no sweep
  Layers layers;
};

/// The points of `sweep`, of the scenario or of a case; nothing where there is none, which the schema
/// describes as `absent`.
std::vector<SweepPoint> decode_sweep(MapReader& in, const char* absent, Diagnostics& diagnostics);

/// Cases of a file, counted without decoding them; no further than to too many.
struct CaseCount {
  std::size_t cases = 0;
  bool swept = false;
};
/// `points`: of the scenario's sweep; 0: it has none.
CaseCount count_cases(const std::vector<Field>& items, std::size_t points, Diagnostics& diagnostics);

/// Refuses changes of devices, and of how guests see them, in a scenario without devices.
void refuse_changes_of_no_devices(std::vector<Variant>& variants, std::vector<SweepPoint>& points,
                                  Diagnostics& diagnostics);
/// Refuses a sweep over a key that an arm changes, or that changes nothing in any arm.
void refuse_swept_keys(const std::vector<SweepPoint>& points, const std::vector<Variant>& variants,
                       Diagnostics& diagnostics);

}  // namespace virtrain::harness
