#include "vmctl/process/host_claims.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/other_user.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

std::string refusal(HostClaims& claims, const std::vector<std::string>& names) {
  try {
    claims.take(names, "another");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::busy);
    return error.what();
  }
  return "taken";
}

TEST_CASE("row 18: two runs of a host share no core, whatever their state folders") {
  const TemporaryFolder temporary;
  const auto folder = temporary.path / "run";
  HostClaims one(folder), other(folder);
  one.take({"core:0", "core:1", "experiment:e1"}, "experiment e1 (pid 7, state in /a)");
  CHECK(held_claims(folder).size() == 3);
  CHECK(held_claims(folder, "core:") == std::vector<std::string>{"0", "1"});
  CHECK(refusal(other, {"core:2", "core:1"}) == "lease core:1: held by experiment e1 (pid 7, state in /a)");
  CHECK(held_claims(folder, "core:").size() == 2);  // all or none
  CHECK(refusal(other, {"core:2"}) == "taken");
  one.release();
  CHECK(held_claims(folder) == std::vector<std::string>{"core:2"});
  CHECK(refusal(other, {"core:1"}) == "taken");
  other.release();
  CHECK(std::filesystem::is_empty(folder));
}

TEST_CASE("row 18: a killed run holds nothing, and no other user can hold or forge anything") {
  const TemporaryFolder temporary;
  const auto folder = temporary.path / "run";
  std::filesystem::permissions(temporary.path, std::filesystem::perms(0755));
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    HostClaims claims(folder);
    claims.take({"core:5", "experiment:e5"}, "a child");
    if (::write(ready[1], "x", 1) < 0) { ::_exit(1); }
    while (true) { ::pause(); }
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  HostClaims claims(folder);
  CHECK(refusal(claims, {"core:5"}) == "lease core:5: held by a child");
  if (::geteuid() == 0) {
    CHECK_FALSE(test::as_stranger([&] {
      return ::open((folder / "core:5").c_str(), O_RDONLY) >= 0 ||
             ::open((folder / "core:6").c_str(), O_RDWR | O_CREAT, 0644) >= 0;
    }));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(held_claims(folder).empty());
  CHECK(std::filesystem::exists(folder / "experiment:e5"));
  CHECK(refusal(claims, {"core:5", "experiment:e6"}) == "taken");
  const HostClaims next(folder);
  CHECK_FALSE(std::filesystem::exists(folder / "experiment:e5"));
  CHECK(held_claims(folder, "experiment:") == std::vector<std::string>{"e6"});
}

}  // namespace
}  // namespace virtrain::vmctl
