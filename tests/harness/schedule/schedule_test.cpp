#include "harness/schedule/schedule.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <map>
#include <optional>
#include <string>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/subprocess.h"
#include "harness/schedule/installer.h"
#include "harness/schedule/notices.h"
#include "tests/support/catch.h"
#include "tests/support/first_in_path.h"
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

/// Stands for systemd's, writes down what it is asked for and fails at what it is told to.
class FakeSystemctl {
 public:
  explicit FakeSystemctl(const std::string& fails_at) : first_(folder_.path) {
    const auto program = folder_.path / "systemctl";
    write_file_atomically(program, "#!/bin/sh\necho \"$@\" >> " + calls_file().string() +
                                       "\ncase \" $* \" in *\" " + fails_at + " \"*) exit 1 ;; esac\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }
  std::string calls() const { return read_file(calls_file()).value_or(""); }

 private:
  std::filesystem::path calls_file() const { return folder_.path / "calls"; }
  TemporaryFolder folder_;
  FirstInPath first_;
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
                         {"severity", "critical"},
                         {"large", true},
                         {"text", "a \x1b[31m\u202e → b"}}};
  CHECK(mail_of("team@example.com", message, "/srv/my nights.db", 1774747800) ==
        "To: team@example.com\n"
        "Subject: [critical] virtrain nightly: change 1f3a90c2 confirmed, much worse\n"
        "Date: Sun, 29 Mar 2026 01:30:00 +0000\n"
        "Importance: high\n"
        "Auto-Submitted: auto-generated\n"
        "MIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=utf-8\n"
        "Content-Transfer-Encoding: 8bit\n"
        "\n"
        "a \uFFFD[31m\uFFFD → b\n"
        "\n"
        "Its runs and suspects: virtrain changes --db '/srv/my nights.db'\n"
        "To accept it as the new normal: virtrain ack 1f3a90c2 \"why\" --db '/srv/my nights.db'\n");
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

TEST_CASE("the label is the first line that a command printed, by the rules of run --label") {
  CHECK(label_in("mpi-4.1.7\nmore\n") == "mpi-4.1.7");
  CHECK(label_in(" größer \r\n") == "größer");
  CHECK(label_in(std::string(1000, 'x')).size() == 1000);
  for (const auto& output : {std::string(), std::string("\nsecond"), std::string(1001, 'x'),
                             std::string("a\xff"), std::string("a\0b", 3), std::string("\x1b[31mred")}) {
    CAPTURE(output);
    CHECK_THROWS_AS(label_in(output), Error);
  }
}

TEST_CASE("nights before a jump of the clock are old once those after it are") {
  const std::string first = "2026-01-01T02:00:00.000Z", second = "2026-01-02T02:00:00.000Z";
  const std::string jumped = "2036-01-01T02:00:00.000Z", next = "2036-01-02T02:00:00.000Z";
  CHECK_FALSE(gap_at("2026-01-01T12:00:00.000Z", {first, second, "2026-01-02T03:00:00.000Z"}));
  const auto new_gap =
      gap_at("2035-12-20T03:00:00.000Z", {first, second, jumped, "2036-01-01T03:00:00.000Z"});
  REQUIRE(new_gap);
  CHECK(new_gap->before == second);
  CHECK(new_gap->after == jumped);
  CHECK(new_gap->is_new);
  const auto gap =
      gap_at("2035-12-21T03:00:00.000Z", {first, second, jumped, next, "2036-01-02T03:00:00.000Z"});
  REQUIRE(gap);
  CHECK_FALSE(gap->is_new);
  CHECK_FALSE(gap_at("2036-01-01T03:00:00.000Z", {first, second, jumped, next, "2036-01-13T03:00:00.000Z"}));
  // The clock jumped while the last night ran.
  CHECK(gap_at("2035-12-20T03:00:00.000Z", {first, second, "2036-01-01T03:00:00.000Z"}));
  // A clock that was put right again after one night.
  CHECK_FALSE(gap_at("2026-01-01T12:00:00.000Z",
                     {first, second, jumped, "2026-01-03T02:00:00.000Z", "2026-01-03T03:00:00.000Z"}));
  CHECK_FALSE(gap_at(first, {}));
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
        table +
            "\n30 2 * * * '/opt/a b/virtrain' schedule run nightly --quiet # virtrain schedule nightly\n");
  CHECK(crontab_without(with, "nightly") == table + "\n");
  const auto of_an_earlier_version =
      table + "\n30 2 * * * '/opt/virtrain' schedule run nightly # virtrain schedule nightly\n";
  CHECK(crontab_with(of_an_earlier_version, nightly(), "/opt/a b/virtrain") == with);
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

TEST_CASE("a night gets the folders that its schedule was added with, whatever they are called") {
  const Environment odd{{"VIRTRAIN_STATE_DIR", "/s t"}, {"XDG_CONFIG_HOME", "/o'h 50% $HOME\\\""}};
  CHECK_THAT(
      crontab_with("", nightly(), "/v", odd),
      Contains("* * * VIRTRAIN_STATE_DIR='/s t' XDG_CONFIG_HOME='/o'\\''h 50'\\%' $HOME\\\"' '/v' schedule"));
  CHECK_THAT(service_unit(nightly(), "/v", true, odd),
             Contains("\nEnvironment=\"VIRTRAIN_STATE_DIR=/s t\"\n"
                      "Environment=\"XDG_CONFIG_HOME=/o'h 50%% $HOME\\\\\\\"\"\n"));
  // sh has the line as cron hands it over: each \% is a %.
  std::string line = crontab_with("", nightly(), "/usr/bin/env", odd);
  line = line.substr(line.find("VIRTRAIN"));
  line = line.substr(0, line.find(" schedule"));
  line.replace(line.find("\\%"), 2, "%");
  CHECK_THAT(run_command({"sh", "-c", line}).out, Contains("XDG_CONFIG_HOME=/o'h 50% $HOME\\\"\n"));
  for (const auto* value : {"/a\nb", "/a\tb", "/a\xff"}) {
    const Environment unwritable{{"XDG_STATE_HOME", value}};
    CHECK_THROWS_WITH(crontab_with("", nightly(), "/v", unwritable), Contains("XDG_STATE_HOME"));
    CHECK_THROWS_WITH(service_unit(nightly(), "/v", false, unwritable), Contains("XDG_STATE_HOME"));
  }
}

TEST_CASE("the folders of a night are those that this process follows") {
  const std::map<std::string, const char*> set{{"XDG_CONFIG_HOME", "relative"},
                                               {"XDG_STATE_HOME", "/s"},
                                               {"XDG_CACHE_HOME", ""},
                                               {"VIRTRAIN_STATE_DIR", "here"},
                                               {"VIRTRAIN_CACHE_DIR", nullptr}};
  std::map<std::string, std::optional<std::string>> before;
  for (const auto& [name, value] : set) {
    const char* old = ::getenv(name.c_str());
    before[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
    value == nullptr ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value, 1);
  }
  const auto found = folder_variables();
  for (const auto& [name, value] : before) {
    value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  const auto here = (std::filesystem::current_path() / "here").string();
  CHECK(found == Environment{{"VIRTRAIN_STATE_DIR", here}, {"XDG_STATE_HOME", "/s"}});
}

TEST_CASE("systemd takes the units") {
  const TemporaryFolder folder;
  auto schedule = nightly();
  schedule.days = "mon,fri";
  CHECK_THAT(timer_unit(schedule), Contains("OnCalendar=Mon,Fri *-*-* 02:30:00"));
  CHECK_THAT(timer_unit(schedule), Contains("Persistent=true"));
  CHECK_THAT(service_unit(schedule, "/a/100%", true),
             Contains("ExecStart=\"/a/100%%\" schedule run nightly"));
  auto with_webhook = schedule;
  with_webhook.webhook_file = "/etc/virtrain/a b 100%";
  if (::access("/usr/bin/systemd-analyze", X_OK) != 0) {
    WARN("there is no systemd-analyze (apt-get install systemd): the units were not verified");
    return;
  }
  for (const auto& one : {schedule, with_webhook}) {
    for (const bool system : {true, false}) {
      const auto service = folder.path / "virtrain-nightly.service";
      const auto timer = folder.path / "virtrain-nightly.timer";
      write_file_atomically(service,
                            service_unit(one, "/bin/true", system, {{"XDG_STATE_HOME", "/a b 50% $x\""}}));
      write_file_atomically(timer, timer_unit(one));
      // Other units of the machine may be broken: ours count.
      const auto verified = run_command({"/usr/bin/systemd-analyze", "verify", "--man=no",
                                         "--recursive-errors=no", service.string(), timer.string()});
      CAPTURE(verified.err);
      CHECK(verified.exit_status == 0);
      CHECK(verified.err.find("virtrain-nightly") == std::string::npos);
    }
  }
}

TEST_CASE("the service closes no device to a run") {
  for (const bool system : {true, false}) {
    const auto unit = service_unit(nightly(), "/bin/true", system);
    for (const auto* closes : {"ProtectClock", "DeviceAllow", "DevicePolicy", "PrivateDevices"}) {
      CHECK_THAT(unit, !Contains(closes));
    }
  }
}

TEST_CASE("systemd gets both units and loses both") {
  const TemporaryFolder folder;
  const FakeSystemctl systemctl("clean");  // as an old one does
  const auto service = folder.path / "virtrain-nightly.service";
  const auto timer = folder.path / "virtrain-nightly.timer";
  for (const bool system : {true, false}) {
    const auto before = systemctl.calls();
    const auto installer = systemd_installer(folder.path, system);
    installer->install(nightly(), "/bin/true", {});
    CHECK(read_file(service) == service_unit(nightly(), "/bin/true", system));
    CHECK(read_file(timer) == timer_unit(nightly()));
    CHECK(installer->remove("nightly"));
    CHECK_FALSE(installer->remove("nightly"));  // it is gone: systemd is asked for nothing
    CHECK(entries_of(folder.path).empty());
    const std::string user = system ? "" : "--user ";
    CHECK(systemctl.calls() == before + user + "daemon-reload\n" + user +
                                   "enable --now virtrain-nightly.timer\n" + user +
                                   "disable --now virtrain-nightly.timer\n" + user +
                                   "clean --what=state virtrain-nightly.timer\n" + user + "daemon-reload\n");
  }
}

TEST_CASE("a timer that systemd does not enable leaves no units") {
  const TemporaryFolder folder;
  const FakeSystemctl systemctl("enable");
  CHECK_THROWS_AS(systemd_installer(folder.path, true)->install(nightly(), "/bin/true", {}), Error);
  CHECK_THAT(systemctl.calls(), Contains("enable --now"));
  CHECK(entries_of(folder.path).empty());
}

TEST_CASE("a timer goes wherever it was added, and a schedule whose timer stays is not forgotten") {
  const TemporaryFolder units, state;
  const FakeSystemctl systemctl("nothing");
  ::setenv("XDG_STATE_HOME", state.path.c_str(), 1);
  const auto installer = systemd_installer(units.path, false);
  const auto away = systemd_installer(units.path, false, false);
  const auto timer = units.path / "virtrain-nightly.timer";
  installer->install(nightly(), "/bin/true", {});
  CHECK_THROWS_WITH(remove_timer("nightly", *away),
                    Contains(timer.string()) && Contains("XDG_RUNTIME_DIR=/run/user/"));
  CHECK(std::filesystem::exists(timer));
  const TemporaryFolder programs;
  const auto table = programs.path / "table";
  write_file_atomically(programs.path / "crontab", "#!/bin/sh\ncase $1 in\n-l) cat " + table.string() +
                                                       " ;;\n-) cat > " + table.string() + " ;;\nesac\n");
  std::filesystem::permissions(programs.path / "crontab", std::filesystem::perms::owner_all);
  {
    const FirstInPath first(programs.path);
    write_file_atomically(table, crontab_with("# mine\n", nightly(), "/bin/true"));
    remove_timer("nightly", *installer);
    CHECK_FALSE(std::filesystem::exists(timer));
    CHECK(read_file(table) == "# mine\n");
    write_file_atomically(table, crontab_with("# mine\n", nightly(), "/bin/true"));
    remove_timer("nightly", *away);  // added by cron before systemd came
    CHECK(read_file(table) == "# mine\n");
    installer->install(nightly(), "/bin/true", {});
    std::filesystem::remove(table);  // as cron.deny has it
    remove_timer("nightly", *installer);
    CHECK_FALSE(std::filesystem::exists(timer));
    CHECK_THROWS_WITH(remove_timer("nightly", *installer), Contains("read the crontab"));
  }
  if (on_path("crontab").empty()) {
    CHECK_THROWS_WITH(remove_timer("nightly", *installer), Contains("remove the schedule again"));
  }
  ::unsetenv("XDG_STATE_HOME");
}

TEST_CASE("schedules are kept in files, and a missing one is named with those there are") {
  const TemporaryFolder folder;
  ::setenv("XDG_CONFIG_HOME", (folder.path / "config").c_str(), 1);
  ::setenv("XDG_STATE_HOME", (folder.path / "state").c_str(), 1);
  const ScheduleBook book;
  ::unsetenv("XDG_CONFIG_HOME");
  ::unsetenv("XDG_STATE_HOME");
  CHECK(book.names().empty());
  book.save(nightly());
  CHECK(book.names() == std::vector<std::string>{"nightly"});
  CHECK(book.find("nightly").patience_seconds == 3600);
  CHECK_THROWS_WITH(book.find("weekly"), Contains("nightly"));
  CHECK_FALSE(book.last_run("nightly"));
  book.save_last_run("nightly", {"2026-11-20T02:00:00Z", "", 75});
  CHECK(book.last_run("nightly")->exit_status == 75);
  CHECK(words_of_status(75) == "not tonight: busy");
  book.save_told("nightly", {"1f3a90c2 confirmed"});
  book.remove("nightly");
  CHECK(book.names().empty());
  CHECK_FALSE(book.last_run("nightly"));
  // Adding it again is how a schedule is changed, and no reason to tell everything anew.
  CHECK(book.told("nightly") == std::set<std::string>{"1f3a90c2 confirmed"});
  write_file_atomically(folder.path / "config/virtrain/schedules/old.json",
                        R"({"name": "old", "scenario": "/s.yaml", "at": "02:00", "days": "",
                            "database": "/d.db", "patience_seconds": 60, "notify": ""})");
  CHECK(book.find("old").label_command.empty());
}

TEST_CASE("a post that waits for its server ends soon after it is cancelled") {
  const UniqueFd server(
      ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // takes connections, never answers
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const place = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(server.get(), place, sizeof address) == 0);
  REQUIRE(::listen(server.get(), 1) == 0);
  REQUIRE(::getsockname(server.get(), place, &length) == 0);
  const Webhook webhook{"http://127.0.0.1:" + std::to_string(ntohs(address.sin_port))};
  const auto began = std::chrono::steady_clock::now();
  const auto taken = [&] { return std::chrono::steady_clock::now() - began; };
  try {
    post(webhook, {{"text", "x"}}, [&] { return taken() > std::chrono::milliseconds(300); });
    FAIL("it was taken");
  } catch (const Error& error) { CHECK(error.code() == ErrorCode::interrupted); }
  CHECK(taken() < std::chrono::seconds(10));  // where its time-out is 30
}
