// A bus that the test plays: its pages lie in files, which the played GPU sees as the driver of a real one
// sees those of /dev/mem and of memory regions in sysfs.

#include <cuda_runtime_api.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/workloads/canary/cuda/fake_gpu.h"
#include "workloads/canary/dma_engine.h"
#include "workloads/canary/gpu.h"

using namespace virtrain;
using namespace virtrain::canary;
using test::Contains;
using test::FakeGpu;

namespace {

constexpr const char* gpu_address = "0000:19:00.0";
constexpr std::chrono::seconds time_for_all{120};
constexpr std::uint64_t page = LockedPage::size;
constexpr std::uint64_t own_address = 0x9000, device_at = 0x500000, foreign_at = 0x300000;
constexpr std::uint64_t region_pages = 8, region_bytes = region_pages * page;

void put(const std::filesystem::path& file, std::uint64_t offset, const std::string& text) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream << text;
}

/// Its tenant has a page of memory and a region of another device; the rest of the bus is foreign.
class PlayedBus {
 public:
  PlayedBus() {
    for (const auto& file : {rest(), device()}) { std::ofstream(file) << ""; }
    std::filesystem::resize_file(rest(), foreign_at + region_bytes);
    std::filesystem::resize_file(device(), region_bytes);
    mine.text.copy(own_.data(), page);
    put(device(), 2 * page + 64, mine.text);
    put(rest(), foreign_at + 5 * page + 128, theirs.text);
  }
  std::filesystem::path rest() const { return folder_.path / "mem"; }
  std::filesystem::path device() const { return folder_.path / "resource2"; }
  BusView view() const { return {&own_, own_address, {{device(), device_at, region_bytes}}, rest()}; }
  /// Of the tenant's memory, of its device, and of what is foreign.
  std::vector<BusRead> read_all(BusView view) const {
    const auto engine = gpu_engine(gpu_address, std::move(view));
    return read_by_device(*engine, {mine, theirs},
                          {{"memory", own_address, page},
                           {"device", device_at, region_bytes},
                           {"foreign", foreign_at, region_bytes}},
                          time_for_all);
  }

  const Canary mine = make_canary("mine"), theirs = make_canary("theirs");

 private:
  TemporaryFolder folder_;
  LockedPage own_;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a GPU reads its tenant's memory and device, and a foreign page that nothing keeps it from") {
  FakeGpu gpu(16);
  const PlayedBus bus;
  const auto reads = bus.read_all(bus.view());
  REQUIRE(reads.size() == 3);
  CHECK(reads[0].found == Names{"mine"});
  CHECK(reads[1].found == Names{"mine"});
  CHECK(reads[2].found == Names{"theirs"});  // the planted leak
  for (const auto& read : reads) {
    CHECK(read.scanned == read.total);
    CHECK(read.refused.empty());
  }
  CHECK(gpu.calls == 0);  // all in children: CUDA does not outlive a fork
}

TEST_CASE("a read that a GPU breaks off brings zeros, and the error, which lasts, ends with it") {
  FakeGpu gpu(16);
  const PlayedBus bus;
  put(bus.rest(), foreign_at + 6 * page, bus.mine.text);
  gpu.closed = {foreign_at + 5 * page};
  for (const auto fault : {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorUnknown}) {
    gpu.fault = fault;
    const auto engine = gpu_engine(gpu_address, bus.view());
    CHECK(engine->read(foreign_at + 5 * page, page).bytes == std::string(page, '\0'));
    const auto reads = bus.read_all(bus.view());
    CHECK(reads[2].found == Names{"mine"});  // of the page after it
    CHECK(reads[2].scanned == region_bytes);
    CHECK(reads[2].refused.empty());
  }
  gpu.closed.clear();
  gpu.silent = {foreign_at + 5 * page};
  CHECK(gpu_engine(gpu_address, bus.view())->read(foreign_at + 5 * page, page).bytes ==
        std::string(page, '\xff'));
  CHECK(bus.read_all(bus.view())[2].found == Names{"mine"});
}

TEST_CASE("a page that the kernel does not map, or the driver does not take, is not scanned") {
  FakeGpu gpu(16);
  const PlayedBus bus;
  gpu.unregistered = {foreign_at + 5 * page};
  const auto reads = bus.read_all(bus.view());
  CHECK(reads[2].found.empty());
  CHECK(reads[2].scanned == region_bytes - page);
  CHECK_THAT(reads[2].refused, Contains("register a page with the GPU's driver: CUDA: "));
  CHECK(reads[1].refused.empty());

  auto view = bus.view();
  view.rest = "/dev/null";  // which has no memory to map
  const auto unmapped = bus.read_all(view);
  CHECK(unmapped[0].found == Names{"mine"});
  CHECK(unmapped[1].found == Names{"mine"});
  CHECK(unmapped[2].scanned == 0);
  CHECK_THAT(unmapped[2].refused, Contains("map /dev/null at 0x307000: "));
  view.rest = bus.rest().string() + "-absent";
  CHECK_THAT(bus.read_all(view)[2].refused, Contains("No such file"));
}

TEST_CASE("a GPU that breaks, hangs or is not there is an error, whatever it should read") {
  FakeGpu gpu(16);
  const PlayedBus bus;
  gpu.closed = {foreign_at};
  gpu.fault = cudaErrorECCUncorrectable;
  const auto read = [&](const char* address, std::chrono::milliseconds limit) {
    return gpu_engine(address, bus.view(), limit)->read(foreign_at, page);
  };
  CHECK_THROWS_WITH(read(gpu_address, time_for_all),
                    Contains("read 0x300000 by GPU 0000:19:00.0: ") && Contains("uncorrectable error"));
  CHECK_THROWS_WITH(read("0000:1a:00.0", time_for_all), Contains("find GPU 0000:1a:00.0 by CUDA"));
  gpu.hangs = true;
  CHECK_THROWS_WITH(read(gpu_address, std::chrono::milliseconds{500}),
                    Contains("the GPU did not finish within 1 s"));
}

TEST_CASE("a region smaller than a page is read alone, wherever in its page it begins") {
  FakeGpu gpu(16);
  const PlayedBus bus;
  put(bus.device(), 0, std::string(0x100, 'a') + std::string(0x100, 'b') + std::string(0x100, 'c'));
  auto view = bus.view();
  view.regions = {{bus.device(), device_at + 0x100, 0x100}};
  const auto read = gpu_engine(gpu_address, view)->read(device_at + 0x100, 0x100);
  CHECK(read.bytes == std::string(0x100, 'b'));
  CHECK(gpu_engine(gpu_address, view)->read(device_at + 0x100, page).bytes.size() == page - 0x100);
}

TEST_CASE("a GPU that is found knows its process's page and the regions of its node's other devices") {
  FakeGpu gpu(16);
  const TemporaryFolder folder;
  const auto plant = [&](const std::string& address, const std::string& vendor, const std::string& code) {
    const auto function = folder.path / "sys/bus/pci/devices" / address;
    std::filesystem::create_directories(function);
    std::ofstream(function / "vendor") << vendor << "\n";
    std::ofstream(function / "class") << code << "\n";
    return function;
  };
  plant(gpu_address, "0x10de", "0x030200");
  const auto other = plant("0000:1b:00.0", "0x1af4", "0x050000");
  std::ofstream(other / "resource") << "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                                       "0x0000000000500000 0x0000000000507fff 0x000000000014220c\n";
  std::ofstream(other / "resource1") << std::string(region_bytes, 'x');
  const LockedPage own;
  own.data()[7] = 'o';
  const auto engine = find_engine(folder.path, own, {}, [](const LockedPage&) { return own_address; });
  REQUIRE(engine);
  CHECK(engine->read(own_address, page).bytes == std::string(7, '\0') + "o" + std::string(page - 8, '\0'));
  CHECK(engine->read(device_at + 3 * page, page).bytes == std::string(page, 'x'));
}
