#include "harness/schedule/schedule.h"

#include <stdlib.h>
#include <unistd.h>

#include <ctime>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "harness/schedule/mail.h"
#include "harness/schedule/timer.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

Schedule nightly() {
  return {"nightly", "/srv/nightly.yaml", "02:30", "", "/srv/nightly.db", 3600, ""};
}

/// The time zone of Berlin while it lives.
class Berlin {
 public:
  Berlin() { set("CET-1CEST,M3.5.0,M10.5.0/3"); }
  Berlin(const Berlin&) = delete;
  Berlin& operator=(const Berlin&) = delete;
  ~Berlin() {
    ::unsetenv("TZ");
    ::tzset();
  }

 private:
  static void set(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
};

}  // namespace

TEST_CASE("a mail's headers are of our own making, whatever its message says") {
  for (const auto* address : {"team@example.com", "a.b+c@h", "x_y%z@a-b.example"}) {
    CHECK_NOTHROW(require_mail_address(address));
  }
  for (const std::string address : {"", "team", "@h", "a@", "a@b@c", "a b@c", "a@b\nBcc: x@y", "a@b,c@d",
                                    "-oQ/tmp@h", "a@-h", "a@h.", "<a@b>", "a@b;"}) {
    CAPTURE(address);
    CHECK_THROWS_AS(require_mail_address(address), Error);
  }
  const Message message{"1f3a90c2 confirmed",
                        {{"event", "confirmed"},
                         {"schedule", "nightly"},
                         {"change", "1f3a90c2"},
                         {"direction", "worse"},
                         {"large", true},
                         {"text", "a \x1b[31m\u202e → b"}}};
  CHECK(mail_of("team@example.com", message, 1774747800) ==
        "To: team@example.com\n"
        "Subject: virtrain nightly: change 1f3a90c2 confirmed, much worse\n"
        "Date: Sun, 29 Mar 2026 01:30:00 +0000\n"
        "Auto-Submitted: auto-generated\n"
        "MIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=utf-8\n"
        "Content-Transfer-Encoding: 8bit\n"
        "\n"
        "a \uFFFD[31m\uFFFD → b\n"
        "\n"
        "Its nights and suspects: virtrain changes\n"
        "To accept it as the new normal: virtrain ack 1f3a90c2 \"why\"\n");
}

TEST_CASE("times, days and names of schedules are checked") {
  CHECK(time_of_day("2:05") == "02:05");
  CHECK(time_of_day("23:59") == "23:59");
  for (const char* text : {"", "2", "24:00", "02:60", "02:5", "2:005", "-1:00", "02:00:00", "a:bc", "٢:00"}) {
    CHECK_THROWS_WITH(time_of_day(text), Contains("23:59"));
  }
  CHECK(days_of_week("Sat,mon") == "mon,sat");
  CHECK(days_of_week("fri-mon") == "mon,fri,sat,sun");
  CHECK(days_of_week("mon-sun").empty());
  CHECK(days_of_week("").empty());
  for (const char* text : {"mo", "mon,", "mon;rm", "1-5"}) { CHECK_THROWS_AS(days_of_week(text), Error); }
  CHECK_NOTHROW(require_schedule_name("nightly-cpu.2"));
  CHECK(days_to_keep("400d") == 400);
  for (const auto* keep : {"6d", "400", "36501d", "-9d", "d", "1e3d", "99999999999999999999d"}) {
    CHECK_THROWS_AS(days_to_keep(keep), Error);
  }
  for (const char* name : {"", "../x", ".x", "a b", "A", "x\n"}) {
    CHECK_THROWS_AS(require_schedule_name(name), Error);
  }
}

TEST_CASE("the next run, over both changes of summer time") {
  const Berlin zone;
  const auto schedule = nightly();
  constexpr std::time_t march_28_noon = 1774695600;        // 2026-03-28 12:00 CET
  CHECK(next_run(schedule, march_28_noon) == 1774747800);  // 02:30 does not exist that night: 03:30 CEST
  CHECK(next_run(schedule, 1774747800) == 1774830600);     // 2026-03-30 02:30 CEST
  constexpr std::time_t october_24_noon = 1792836000;      // 2026-10-24 12:00 CEST
  const auto once = next_run(schedule, october_24_noon);   // 02:30 comes twice that night
  CHECK(next_run(schedule, once) - once >= 23 * 3600);
  auto mondays = nightly();
  mondays.days = "mon";
  CHECK(next_run(mondays, march_28_noon) == 1774830600);
}

TEST_CASE("a crontab keeps every line that is not ours") {
  const std::string table =
      "# mine\nMAILTO=ada\n5 4 * * * backup % x # virtrain schedule nightly-2\n@reboot x";
  const auto with = crontab_with(table, nightly(), "/opt/a b/virtrain");
  CHECK(with ==
        table + "\n30 2 * * * '/opt/a b/virtrain' schedule run nightly # virtrain schedule nightly\n");
  CHECK(crontab_without(with, "nightly") == table + "\n");
  CHECK(crontab_with(with, nightly(), "/opt/a b/virtrain") == with);
  CHECK(crontab_without(table, "nightly") == table);
  CHECK(crontab_without("# x # virtrain schedule nightly\n", "nightly") ==
        "# x # virtrain schedule nightly\n");
  CHECK(crontab_without("", "nightly").empty());
  CHECK(crontab_without("\n\n", "nightly") == "\n\n");
  auto weekdays = nightly();
  weekdays.days = "mon,fri";
  CHECK_THAT(crontab_with("", weekdays, "/v%1"), Contains("30 2 * * mon,fri '/v'\\%'1' schedule run"));
}

TEST_CASE("systemd takes the units") {
  const TemporaryFolder folder;
  auto schedule = nightly();
  schedule.days = "mon,fri";
  CHECK_THAT(timer_unit(schedule), Contains("OnCalendar=Mon,Fri *-*-* 02:30:00"));
  CHECK_THAT(timer_unit(schedule), Contains("Persistent=true"));
  CHECK_THAT(service_unit(schedule, "/a/100%", true),
             Contains("ExecStart=\"/a/100%%\" schedule run nightly"));
  if (::access("/usr/bin/systemd-analyze", X_OK) != 0) { return; }
  for (const bool system : {true, false}) {
    const auto service = folder.path / "virtrain-nightly.service";
    const auto timer = folder.path / "virtrain-nightly.timer";
    write_file_atomically(service, service_unit(schedule, "/bin/true", system));
    write_file_atomically(timer, timer_unit(schedule));
    const auto verified =
        run_command({"/usr/bin/systemd-analyze", "verify", service.string(), timer.string()});
    // Other units of the machine may be broken: what is said of ours counts.
    CHECK(verified.err.find("virtrain-nightly") == std::string::npos);
  }
}

TEST_CASE("schedules are kept in files, and a missing one is named with those there are") {
  const TemporaryFolder folder;
  ::setenv("XDG_CONFIG_HOME", (folder.path / "config").c_str(), 1);
  ::setenv("XDG_STATE_HOME", (folder.path / "state").c_str(), 1);
  const ScheduleBook book;
  ::unsetenv("XDG_CONFIG_HOME");
  ::unsetenv("XDG_STATE_HOME");
  CHECK(book.all().empty());
  book.save(nightly());
  REQUIRE(book.all().size() == 1);
  CHECK(book.find("nightly").patience_seconds == 3600);
  CHECK_THROWS_WITH(book.find("weekly"), Contains("nightly"));
  CHECK_FALSE(book.last_run("nightly"));
  book.save_last_run("nightly", {"2026-11-20T02:00:00Z", "", 75});
  CHECK(book.last_run("nightly")->exit_status == 75);
  CHECK(words_of_status(75) == "not tonight: busy");
  book.remove("nightly");
  CHECK(book.all().empty());
  CHECK_FALSE(book.last_run("nightly"));
}
