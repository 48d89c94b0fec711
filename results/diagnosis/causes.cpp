#include "results/diagnosis/causes.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "common/contains.h"

namespace virtrain::results {

std::vector<DiagnosisFinding> joined(std::vector<DiagnosisFinding> symptoms,
                                     const std::vector<CauseFinding>& causes) {
  std::vector<DiagnosisFinding> all;
  std::set<std::string> explained;
  for (const auto& cause : causes) {
    auto one = cause.is;
    for (const auto& symptom : symptoms) {
      if (!contains(cause.explains, symptom.id)) { continue; }
      one.evidence += "; " + symptom.id + ": " + symptom.evidence;
      if (symptom.loss && !one.loss) { std::tie(one.loss, one.cost) = std::pair(symptom.loss, symptom.cost); }
      if (one.cost.empty()) { one.cost = symptom.cost; }
      one.grade = EvidenceGrade::explained;
      explained.insert(symptom.id);
    }
    all.push_back(std::move(one));
  }
  std::erase_if(symptoms, [&](const auto& one) { return explained.contains(one.id); });
  all.insert(all.begin(), std::make_move_iterator(symptoms.begin()), std::make_move_iterator(symptoms.end()));
  std::ranges::stable_sort(all, {}, &DiagnosisFinding::grade);
  return all;
}

}  // namespace virtrain::results
