#include "workloads/stress/load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/stress/crew.h"

using namespace virtrain;
using namespace virtrain::stress;

namespace {

class FailingWorker : public Worker {
 public:
  std::uint64_t work() override { throw Error("work", ErrorCode::io, "planted"); }
};

class FailingLoad : public Load {
 public:
  explicit FailingLoad(int threads) : threads_(threads) {}
  const char* unit() const override { return "B"; }
  int threads() const override { return threads_; }
  std::unique_ptr<Worker> make_worker(int /*index*/) override { return std::make_unique<FailingWorker>(); }

 private:
  int threads_;
};

std::filesystem::path new_path() {
  return std::filesystem::temp_directory_path() / ("virtrain-stress-" + std::to_string(getpid()));
}

}  // namespace

TEST_CASE("every kind of one host does work and says its unit") {
  for (const Kind kind : {Kind::cpu, Kind::llc, Kind::membw, Kind::disk}) {
    CAPTURE(to_string(kind));
    Flags flags;
    flags.kind = kind;
    flags.threads = 1;
    flags.bytes = 4U << 20;
    flags.file = new_path().string();
    const auto load = make_load(flags);
    const auto worker = load->make_worker(0);
    std::uint64_t work = 0;
    for (int piece = 0; piece < 10; ++piece) {
      work += worker->work();  // past the end of the file and arrays, too
    }
    CHECK(work > 0);
    if (kind == Kind::disk) { CHECK(work == 10U << 20); }
    CHECK(std::string(load->unit()) ==
          (kind == Kind::cpu ? "operations" : (kind == Kind::llc ? "accesses" : "B")));
    CHECK_FALSE(std::filesystem::exists(new_path()));  // it has no name from the start
  }
}

TEST_CASE("a file that is there is never touched") {
  write_file_atomically(new_path(), "precious");
  Flags flags;
  flags.kind = Kind::disk;
  flags.file = new_path().string();
  CHECK_THROWS_WITH(make_load(flags), virtrain::test::Contains("exists"));
  CHECK(read_file(new_path()) == "precious");
  std::filesystem::remove(new_path());
}

TEST_CASE("a whole disk is loaded only where one and no other has the serial number") {
  const TemporaryFolder folder;
  const auto plant = [&](const char* name, const char* number) {
    std::filesystem::create_directories(folder.path / name);
    write_file_atomically(folder.path / name / "serial", number);
  };
  std::filesystem::create_directories(folder.path / "loop0");  // has none
  plant("vda", "");
  plant("vdb", "virtrain-scratch");
  plant("sda", "  virtrain-scratch-2\n");
  CHECK(disk_with_serial(folder.path, "virtrain-scratch") == "vdb");
  CHECK(disk_with_serial(folder.path, "virtrain-scratch-2") == "sda");
  CHECK_THROWS_WITH(disk_with_serial(folder.path, "virtrain"), virtrain::test::Contains("no disk has it"));
  plant("vdc", "virtrain-scratch\n");
  CHECK_THROWS_WITH(disk_with_serial(folder.path, "virtrain-scratch"),
                    virtrain::test::Contains("several have it"));
  Flags flags;
  flags.kind = Kind::disk;
  flags.serial = "no disk of this host";
  CHECK_THROWS_WITH(make_load(flags), virtrain::test::Contains("no disk has it"));
}

TEST_CASE("what is sent is what is received") {
  Flags receiving;
  receiving.kind = Kind::net;
  receiving.listen_port = 0;
  const auto receiver = make_load(receiving);
  Flags sending;
  sending.kind = Kind::net;
  sending.peer_host = "localhost";
  sending.peer_port = std::to_string(receiver->port().value());
  const auto sender = make_load(sending);
  std::uint64_t sent = 0;
  const auto taker = receiver->make_worker(0);
  {
    const auto giver = sender->make_worker(0);
    while (sent < 1'000'000) { sent += giver->work(); }
  }
  std::uint64_t received = 0;
  for (int piece = 0; piece < 1000 && received < sent; ++piece) { received += taker->work(); }
  CHECK(received == sent);
}

TEST_CASE("a peer that is not there is named") {
  Flags flags;
  flags.kind = Kind::net;
  flags.peer_host = "localhost";
  flags.peer_port = "1";
  const auto load = make_load(flags);
  CHECK_THROWS_WITH(load->make_worker(0),
                    virtrain::test::Contains("localhost port 1") && virtrain::test::Contains("--listen"));
}

TEST_CASE("a worker's failure comes out of the crew") {
  FailingLoad load(2);
  Crew crew(load, 1, std::nullopt);
  crew.stop();
  CHECK_THROWS_WITH(crew.rethrow_failure(), virtrain::test::Contains("planted"));
}

TEST_CASE("threads that cannot be made are an error, and those that were made end") {
  const auto pages = parse_integer(split(read_file("/proc/self/statm").value(), ' ').at(0));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  auto little = before;  // room for the stacks of some of them
  little.rlim_cur = static_cast<rlim_t>(pages.value() * ::sysconf(_SC_PAGESIZE)) + (64U << 20);
  REQUIRE(setrlimit(RLIMIT_AS, &little) == 0);
  FailingLoad load(1000);
  CHECK_THROWS_AS(Crew(load, 1, std::nullopt), std::system_error);
  setrlimit(RLIMIT_AS, &before);
}
