#include "harness/cli/manual/verb.h"

namespace virtrain::harness::manual {

bool is_taken_below(const Argument& option) {
  return option.names.back() != "--help" && option.names.back() != "--version";
}

std::string word_of(const Verb& verb) {
  return verb.name.substr(verb.name.rfind(' ') + 1);
}

std::vector<const Verb*> all_verbs(const Verb& verb) {
  std::vector<const Verb*> found{&verb};
  for (const auto& below : verb.verbs) {
    const auto deeper = all_verbs(below);
    found.insert(found.end(), deeper.begin(), deeper.end());
  }
  return found;
}

}  // namespace virtrain::harness::manual
