#include "workloads/stress/flags.h"

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::stress;
using virtrain::test::Contains;

namespace {

Flags parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "virtrain-stress");
  return parse_flags(static_cast<int>(arguments.size()), arguments.data()).flags;
}

std::string refusal(const std::vector<const char*>& arguments) {
  try {
    parsed(arguments);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.message();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("rates are shares of the time, and of what moves bytes also bytes a second") {
  CHECK(parsed({"--kind=cpu", "--rate=25%"}).share == Approx(0.25));
  CHECK(parsed({"--kind=llc", "--rate=0.5"}).share == Approx(0.5));
  CHECK(parsed({"--kind=cpu"}).share == 1);
  CHECK(parsed({"--kind=membw", "--rate=2GiB/s"}).bytes_per_second == 2ULL << 30);
  CHECK_FALSE(parsed({"--kind=membw"}).bytes_per_second);
  CHECK_THAT(refusal({"--kind=cpu", "--rate=2GiB/s"}), Contains("50%"));
  CHECK_THAT(refusal({"--kind=cpu", "--rate=0%"}), Contains("100%"));
  CHECK_THAT(refusal({"--kind=cpu", "--rate=101%"}), Contains("100%"));
  CHECK(parsed({"--kind=membw", "--rate=50%"}).share == Approx(0.5));
  CHECK(parsed({"--kind=net", "--peer=a:1", "--rate=50%"}).share == Approx(0.5));
  CHECK_THAT(refusal({"--kind=net", "--listen=1", "--rate=50%"}), Contains("sending"));
  CHECK_THAT(refusal({"--kind=membw", "--rate=2GiB"}), Contains("2GiB/s"));
  CHECK_THAT(refusal({"--kind=membw", "--rate=0/s"}), Contains("2GiB/s"));
}

TEST_CASE("a GPU is loaded by its own kinds, and its memory where it is named") {
  CHECK(loads_gpu(parsed({"--kind=gemm", "--rate=50%"})));
  CHECK(loads_gpu(parsed({"--kind=h2d", "--gpu=3", "--rate=5GiB/s"})));
  CHECK(loads_gpu(parsed({"--kind=membw", "--gpu=0"})));
  CHECK_FALSE(loads_gpu(parsed({"--kind=membw"})));
  CHECK(parsed({"--kind=d2h", "--gpu=3"}).gpu == 3);
  for (const char* const kind : {"--kind=gemm", "--kind=power", "--kind=l2", "--kind=h2d", "--kind=d2h"}) {
    CHECK(parsed({kind, "--stall_seconds=5"}).stall_seconds == 5);
  }
  CHECK(parsed({"--kind=membw", "--gpu=0", "--stall_seconds=5"}).stall_seconds == 5);
  CHECK_THAT(refusal({"--kind=membw", "--stall_seconds=5"}), Contains("membw with --gpu"));
}

TEST_CASE("ranks add up as much as they are told") {
  const Flags flags =
      parsed({"--kind=allreduce", "--rate=2GiB/s", "--bytes=4MiB", "--gpu=2", "--stall_seconds=5"});
  CHECK(flags.bytes_per_second == 2ULL << 30);
  CHECK(flags.bytes == 4U << 20);
  CHECK(flags.gpu == 2);
  CHECK(to_json(flags)["stall_seconds"] == 5);
  CHECK_FALSE(loads_gpu(flags));  // NCCL's ranks are joined before a GPU is loaded
  CHECK(parsed({"--kind=allreduce", "--rate=50%"}).share == Approx(0.5));
  CHECK_THAT(refusal({"--kind=allreduce", "--threads=2"}), Contains("no ranks"));
  CHECK_THAT(refusal({"--kind=allreduce", "--bytes=8GiB"}), Contains("4GiB"));
  CHECK_THAT(refusal({"--kind=allreduce", "--stall_seconds=0"}), Contains("1"));
  CHECK_THAT(refusal({"--kind=cpu", "--stall_seconds=5"}), Contains("gemm") && Contains("allreduce"));
}

TEST_CASE("a load has whole elements, be they floats or halves of two buffers") {
  constexpr std::uint64_t least = 1U << 20;
  for (const std::string kind : {"allreduce", "h2d", "membw"}) {
    for (std::uint64_t odd = 0; odd < 8; ++odd) {
      const std::string kind_flag = "--kind=" + kind;
      const std::string bytes_flag = "--bytes=" + std::to_string(least + odd);
      CHECK(parsed({kind_flag.c_str(), bytes_flag.c_str()}).bytes == least + (odd < 4 ? 0 : 4));
    }
  }
}

TEST_CASE("peers are a host and a port") {
  const Flags named = parsed({"--kind=net", "--peer=node-b:5000"});
  CHECK(named.peer_host == "node-b");
  CHECK(named.peer_port == "5000");
  CHECK(parsed({"--kind=net", "--peer=[fe80::1]:5000"}).peer_host == "fe80::1");
  CHECK(parsed({"--kind=net", "--listen=0"}).listen_port == 0);
  for (const char* const peer : {"--peer=node-b", "--peer=:5000", "--peer=node-b:x", "--peer=node-b:70000"}) {
    CHECK_THAT(refusal({"--kind=net", peer}), Contains("HOST:PORT"));
  }
}

TEST_CASE("what cannot be is refused with what is allowed") {
  CHECK_THAT(refusal({}), Contains("--kind"));
  CHECK_THAT(refusal({"--kind=disc"}),
             Contains("cpu, llc, membw, disk, net, gemm, power, l2, h2d, d2h, allreduce"));
  CHECK_THAT(refusal({"--kind=cpu", "--gpu=0"}), Contains("gemm, power, l2, membw, h2d, d2h"));
  CHECK_THAT(refusal({"--kind=gemm", "--bytes=1MiB"}), Contains("h2d"));
  CHECK_THAT(refusal({"--kind=gemm", "--rate=1GiB/s"}), Contains("50%"));
  CHECK_THAT(refusal({"--kind=h2d", "--threads=2"}), Contains("no GPU"));
  CHECK_THAT(refusal({"--kind=disk"}), Contains("--file") && Contains("--serial"));
  CHECK_THAT(refusal({"--kind=disk", "--file=x", "--serial=y"}), Contains("one of"));
  CHECK_THAT(refusal({"--kind=cpu", "--serial=x"}), Contains("disk"));
  CHECK_THAT(refusal({"--kind=cpu", "--file=x"}), Contains("disk"));
  CHECK_THAT(refusal({"--kind=cpu", "--bytes=1MiB"}), Contains("llc, membw, disk"));
  CHECK_THAT(refusal({"--kind=net"}), Contains("--peer") && Contains("--listen"));
  CHECK_THAT(refusal({"--kind=net", "--peer=a:1", "--listen=1"}), Contains("one of"));
  CHECK_THAT(refusal({"--kind=cpu", "--peer=a:1"}), Contains("net"));
  CHECK_THAT(refusal({"--kind=net", "--listen=1", "--rate=1MiB/s"}), Contains("sending"));
  CHECK_THAT(refusal({"--kind=cpu", "--seconds=-1"}), Contains("seconds"));
  for (const char* const seconds : {"--seconds=nan", "--seconds=-nan", "--seconds=NaN", "--seconds=inf"}) {
    CHECK_THAT(refusal({"--kind=cpu", seconds}), Contains("seconds"));
  }
  for (const char* const rate : {"--rate=nan", "--rate=nan%", "--rate=inf"}) {
    CHECK_THAT(refusal({"--kind=cpu", rate}), Contains("50%"));
  }
  CHECK_THAT(refusal({"--kind=membw", "--bytes=3"}), Contains("1MiB"));
  CHECK_THAT(refusal({"--kind=cpu", "--bogus"}), Contains("--bogus"));
}
