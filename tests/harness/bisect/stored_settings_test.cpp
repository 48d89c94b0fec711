#include "harness/bisect/stored_settings.h"

#include <algorithm>

#include "harness/scenario/decode/decode.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;

namespace {

std::vector<std::string> confirmed_words(const std::string& text, const std::vector<Setting>& switched,
                                         const std::vector<Setting>& given = {}) {
  const TwoArms wanted{"bisect", "", "one", "vm", switched, {0}, 3};
  const auto scenario = decode_scenario(two_arm_scenario(text, wanted), "scenario", true);
  std::vector<std::string> words;
  for (const auto& one : settings_to_confirm(scenario, given)) { words.push_back(words_of(one)); }
  return words;
}

std::string stored_text(const std::string& workload, const std::string& guest, const std::string& tenant) {
  return "name: nightly\n"
         "workload: {steps: 2" +
         workload +
         "}\n"
         "guest: {vcpus: 1, memory: 768MiB" +
         guest +
         "}\n"
         "cases: [{name: one, tenants: [{nodes: 1" +
         tenant +
         "}]}]\n"
         "arms: [vm]\n";
}

}  // namespace

TEST_CASE("what a stored scenario sets for processes and names of this host has to be confirmed") {
  using Words = std::vector<std::string>;
  const Setting edited{"workload.env.X", "1", "2"}, threads{"workload.threads", "1", "2"};
  CHECK(confirmed_words(stored_text("", "", ""), {threads}).empty());
  CHECK(confirmed_words(stored_text(", env: {LD_PRELOAD: /tmp/e.so}", "", ""), {edited}) ==
        Words{"workload.env.LD_PRELOAD: /tmp/e.so", "workload.env.X: 1 → 2"});
  // a value that only one of the nights has
  CHECK(confirmed_words(stored_text("", "", ""), {{"workload.env.X", std::nullopt, "2"}}) ==
        Words{"workload.env.X: not set → 2"});
  CHECK(confirmed_words(stored_text("", "", ", workload: {env: {PATH: /tmp}}"), {threads}) ==
        Words{"workload.env.PATH: /tmp"});
  CHECK(confirmed_words(stored_text("", ", image: /etc/shadow", ""), {threads}) ==
        Words{"guest.image: /etc/shadow"});
  CHECK(confirmed_words(stored_text("", ", nccl_topology: /etc/shadow", ""), {threads}) ==
        Words{"guest.nccl_topology: /etc/shadow"});
  CHECK(confirmed_words(stored_text("", ", nccl_topology: 'off'", ""), {threads}).empty());
  // what the user has typed needs no second word, and that exempts no other value of the same variable
  CHECK(confirmed_words(stored_text("", "", ""), {edited}, {edited}).empty());
  CHECK(confirmed_words(stored_text("", "", ""), {edited}, {{"workload.env.X", "1", "3"}}) ==
        Words{"workload.env.X: 1 → 2"});
}

TEST_CASE("text of a stranger's scenario is shown without control characters") {
  CHECK(words_of({"workload.env.X", "a\x1b[2J\nb", "a\x1b[2J\nb"}).find('\x1b') == std::string::npos);
}
