#include "common/system/subprocess.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>

#include "common/error.h"
#include "common/files/file_lock.h"
#include "common/text/units.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using virtrain::test::Contains;
using namespace std::chrono_literals;

namespace {

Error error_of(const std::vector<std::string>& argv, const CommandOptions& options = {}) {
  try {
    run_checked(argv, options);
  } catch (const Error& error) { return error; }
  return Error("none", ErrorCode::usage, "no error");
}

}  // namespace

TEST_CASE("a command's streams and exit status") {
  const auto result = run_command({"sh", "-c", "echo out; echo err >&2; exit 3"});
  CHECK(result.out == "out\n");
  CHECK(result.err == "err\n");
  CHECK(result.exit_status == 3);
  CHECK(run_command({"sh", "-c", "kill -9 $$"}).exit_status == 128 + SIGKILL);
  CHECK(run_command({"printf", "%s|", "a b", "", "$HOME"}).out == "a b||$HOME|");
}

TEST_CASE("input, environment and the limit of what is kept") {
  CommandOptions options;
  options.input = std::string(1'000'000, 'x');
  options.environment = {"VIRTRAIN_A=b=c"};
  CHECK(run_command({"sh", "-c", "wc -c; echo $VIRTRAIN_A"}, options).out == "1000000\nb=c\n");
  // Nobody reads the input: an error of the write, not our end by SIGPIPE.
  CHECK(run_command({"true"}, options).exit_status == 0);
  options.max_output_bytes = 1000;
  CHECK(run_command({"sh", "-c", "cat; echo end >&2"}, options).out.size() == 1000);
}

TEST_CASE("a plain environment has no token of ours, and what is set for it") {
  ::setenv("VIRTRAIN_TOKEN", "s3cret", 1);
  CommandOptions options;
  CHECK_THAT(run_command({"env"}, options).out, Contains("VIRTRAIN_TOKEN=s3cret\n"));
  options.plain_environment = true;
  options.environment = {"VIRTRAIN_A=b"};
  const auto plain = run_command({"env"}, options).out;
  CHECK_THAT(plain, !Contains("VIRTRAIN_TOKEN") && Contains("VIRTRAIN_A=b\n") && Contains("PATH="));
  ::unsetenv("VIRTRAIN_TOKEN");
  for (const auto* name : {"PATH", "LANG", "LC_ALL", "HOME", "XDG_RUNTIME_DIR"}) {
    CHECK(is_plain_variable(name));
  }
  for (const auto* name : {"", "https_proxy", "AWS_SECRET_ACCESS_KEY", "PATHS", "LANGX", "LD_PRELOAD"}) {
    CHECK_FALSE(is_plain_variable(name));
  }
}

TEST_CASE("signals are passed on, and a command that overran may end by itself first") {
  const TemporaryFolder folder;
  const auto file = folder.path / "torn-down";
  const std::string tear_down = "trap 'sleep 0.3; touch " + file.string() + "; exit 7' TERM; ";
  CommandOptions told;
  told.next_signal = [asked = 0]() mutable { return ++asked == 3 ? SIGTERM : 0; };
  CHECK(run_command({"sh", "-c", tear_down + "while :; do sleep 0.1; done"}, told).exit_status == 7);
  REQUIRE(std::filesystem::remove(file));
  CommandOptions hurried;
  hurried.deadline = 500ms;
  hurried.grace = 20s;
  CHECK(error_of({"sh", "-c", tear_down + "while :; do sleep 0.1; done"}, hurried).code() ==
        ErrorCode::timeout);
  CHECK(std::filesystem::exists(file));
  hurried.grace = 200ms;
  CHECK(error_of({"sh", "-c", "trap '' TERM; sleep 986 & sleep 986"}, hurried).code() == ErrorCode::timeout);
  bool gone = false;
  for (int i = 0; i < 100 && !gone; ++i) { gone = run_command({"pgrep", "-f", "^sleep 986$"}).out.empty(); }
  CHECK(gone);
}

TEST_CASE("a descriptor is inherited by the command that is given it, and by no other") {
  const TemporaryFolder folder;
  const UniqueFd held = try_lock_file(folder.path / "lock", LockKind::exclusive);
  const std::vector<std::string> look{"test", "-e", fmt::format("/proc/self/fd/{}", held.get())};
  CHECK(run_command(look).exit_status == 1);
  CommandOptions given;
  given.inherited = held.get();
  CHECK(run_command(look, given).exit_status == 0);
  CHECK(run_command(look).exit_status == 1);
}

TEST_CASE("what cannot start, fails or overruns says so") {
  CHECK(error_of({"no-such-command"}).code() == ErrorCode::not_found);
  CHECK_THAT(error_of({"/nonexistent/command"}).what(), Contains("/nonexistent/command"));
  const auto failed = error_of({"sh", "-c", "printf '\\033[2Jwords' >&2; exit 4"});
  CHECK(failed.code() == ErrorCode::io);
  CHECK_THAT(failed.what(), Contains("exit status 4: \uFFFD[2Jwords"));
  CommandOptions hurried;
  hurried.deadline = 200ms;
  const auto late = error_of({"sh", "-c", "sleep 987 & sleep 987"}, hurried);
  CHECK(late.code() == ErrorCode::timeout);
  CHECK_THAT(late.what(), Contains("still running after 200 ms"));
  // The whole group has gone, the grandchild too (it may still be dying).
  bool gone = false;
  for (int i = 0; i < 100 && !gone; ++i) { gone = run_command({"pgrep", "-f", "^sleep 987$"}).out.empty(); }
  CHECK(gone);
}
