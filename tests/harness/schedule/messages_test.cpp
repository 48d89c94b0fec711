#include "harness/schedule/messages.h"

#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using results::ChangeState;

namespace {

/// A loss of a series of one night.
struct Loss {
  results::Night night;
  results::Series series;
  results::Change change;

  Loss() {
    night.experiment = "20261120t020004-7f3a2b";
    series.scenario = "nightly";
    series.case_name = "one";
    series.arm = "vm";
    series.figure = "ratio";
    series.nights = {&night};
    change.id = "1f3a90c2";
    change.state = ChangeState::open;
    change.series = &series;
    change.regression = true;
    change.level.ratio = 0.97;
  }
};

struct Told {
  std::set<std::string> keys;

  /// What is told now, as "event severity" in one line.
  std::string hear(const results::Change& change, const std::string& mark = "") {
    std::string events;
    for (const auto& message : messages_of("nightly", {change}, keys, mark)) {
      keys.insert(message.key);
      for (const auto& over : message.takes_back) { keys.erase(over); }
      events += message.body["event"].get<std::string>() + " " + message.body["severity"].get<std::string>();
    }
    return events;
  }
};

}  // namespace

TEST_CASE("a loss is told once, once more when it has become large, and when it is mended") {
  Loss loss;
  Told told;
  CHECK(told.hear(loss.change) == "confirmed warning");
  CHECK(told.hear(loss.change).empty());
  loss.change.level.ratio = 0.65;
  loss.change.level.large = true;
  CHECK(messages_of("nightly", {loss.change}, told.keys)[0].body["text"] ==
        "nightly/one/vm/ratio: much worse (-35.0 %) since 20261120t020004-7f3a2b, more than was told");
  CHECK(told.hear(loss.change) == "grown critical");
  CHECK(told.hear(loss.change).empty());
  CHECK(told.hear(loss.change, " mail") ==
        "confirmed critical");  // another way to tell has a memory of its own
  loss.change.state = ChangeState::mended;
  CHECK(told.hear(loss.change) == "mended info");
  CHECK(told.hear(loss.change).empty());
}

TEST_CASE("a loss that nobody will know more of is told as over, once") {
  Loss loss;
  Told told;
  loss.change.level.large = true;
  CHECK(told.hear(loss.change) == "confirmed critical");
  loss.change.state = ChangeState::superseded;
  CHECK(messages_of("nightly", {loss.change}, told.keys)[0].body["text"].get<std::string>().ends_with(
      "is over: the scenario was changed"));
  CHECK(told.hear(loss.change) == "superseded info");
  CHECK(told.hear(loss.change).empty());
}

TEST_CASE("a loss that comes back with its scenario is told again, and so is its end") {
  Loss loss;
  Told told;
  CHECK(told.hear(loss.change) == "confirmed warning");
  for (int i = 0; i < 2; ++i) {
    loss.change.state = ChangeState::superseded;
    CHECK(told.hear(loss.change) == "superseded info");
    loss.change.state = ChangeState::open;
    CHECK(told.hear(loss.change) == "confirmed warning");
    CHECK(told.hear(loss.change).empty());
  }
}

TEST_CASE("what was never told is not told as over, and what was accepted not at all") {
  Loss loss;
  Told told;
  for (const auto state : {ChangeState::mended, ChangeState::superseded}) {
    loss.change.state = state;
    CHECK(told.hear(loss.change).empty());
  }
  loss.change.state = ChangeState::acknowledged;
  CHECK(told.hear(loss.change).empty());
  loss.change.state = ChangeState::open;
  loss.change.regression = false;
  CHECK(told.hear(loss.change) == "confirmed info");
}

TEST_CASE("a message is one line of a mail whatever imported names are like") {
  Loss loss;
  const std::string hostile = "a\n.\nBcc: eve@example.com\r\x1b[2J" + std::string(100'000, 'w');
  loss.night.experiment = hostile;
  loss.series.case_name = hostile;
  loss.change.suspects = {{.fact = hostile, .before = hostile, .after = hostile}};
  for (const auto state : {ChangeState::open, ChangeState::mended}) {
    loss.change.state = state;
    const std::set<std::string> told =
        state == ChangeState::open ? std::set<std::string>{} : std::set<std::string>{"1f3a90c2 confirmed"};
    const auto messages = messages_of("nightly", {loss.change}, told);
    REQUIRE(messages.size() == 1);
    const auto text = messages[0].body["text"].get<std::string>();
    CHECK(text.size() <= 998);
    CHECK(text.find_first_of("\r\n\x1b") == std::string::npos);
  }
}
