#pragma once

#include <functional>

namespace virtrain::probe {

/// Does an operation so many times, back to back, and says how many seconds all of them took.
using RunTimes = std::function<double(int times)>;

/// Seconds of one operation, after some tenths of a second of it: the best of all repetitions but the first,
/// each of as many operations as fill some 20 ms. Its start and its end, 10 to 15 us and more in a VM, are
/// then less than a thousandth of it; of a millisecond they would be as much as what virtualization costs.
double best_seconds(int repetitions, const RunTimes& run);

}  // namespace virtrain::probe
