#pragma once

#include <string>
#include <utility>
#include <vector>

namespace virtrain::harness {

/// A reason why a host cannot run a case.
struct Lack {
  std::string words;
  std::string resource = {};  ///< "cores": of its lacks the largest says enough; empty: each is told
  double demand = 0;

  Lack(std::string reason) : words(std::move(reason)) {}  // NOLINT: a reason is a lack of its own
  Lack(std::string reason, std::string of, double wanted)
      : words(std::move(reason)), resource(std::move(of)), demand(wanted) {}
  bool operator==(const Lack& other) const { return words == other.words; }
};

/// A line each; of lacks of one resource the largest demand alone, with the number of the others.
std::vector<std::string> lines_of(const std::vector<Lack>& lacks);

}  // namespace virtrain::harness
