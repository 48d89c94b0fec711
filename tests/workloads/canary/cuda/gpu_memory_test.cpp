
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/workloads/canary/cuda/fake_gpu.h"
#include "workloads/canary/gpu.h"
#include "workloads/canary/kernels.h"

using namespace virtrain;
using namespace virtrain::canary;
using test::Contains;
using test::FakeGpu;

namespace {

constexpr std::chrono::seconds time_enough{120};
constexpr const char* address = "0000:19:00.0";
constexpr std::size_t shared_total = FakeGpu::multiprocessors * FakeGpu::shared_bytes;
/// Beside the device's memory: what there is, and what kernels reach.
constexpr std::size_t chip_total = shared_total + FakeGpu::multiprocessors * FakeGpu::register_bytes;
constexpr std::size_t registers_scanned = FakeGpu::multiprocessors * searched_register_bytes;
constexpr std::size_t chip_scanned = shared_total + registers_scanned;

void put(std::vector<std::byte>& memory, std::size_t at, const std::string& text) {
  std::memcpy(memory.data() + at, text.data(), text.size());
}

/// As virtrain-canary fills disks and regions, independently of the kernels.
std::string plain_page(const std::string& canary, std::uint64_t number) {
  std::string page;
  while (page.size() < 4096) { page += fmt::format("{}{:016x}", canary, number); }
  return page.substr(0, 4096);
}

SearchReport search(const std::vector<Canary>& canaries, std::uint64_t bytes = std::uint64_t{1} << 40) {
  return search_gpu(address, canaries, {bytes, time_enough});
}

}  // namespace

TEST_CASE("a kernel fills whole pages and a part of one as a disk is filled") {
  FakeGpu gpu(1);
  const auto canary = make_canary("a").text;
  for (const std::size_t words :
       {std::size_t{1}, std::size_t{2}, std::size_t{255}, std::size_t{256}, std::size_t{700}}) {
    std::vector<Word> memory(words + 1, Word{7, 7});
    fill_words(memory.data(), words, 0x1f3, words_of_canary(canary));
    std::string expected;
    for (std::uint64_t page = 0x1f3; expected.size() < words * 16; ++page) {
      expected += plain_page(canary, page);
    }
    CHECK(std::string(reinterpret_cast<const char*>(memory.data()), words * 16) ==
          expected.substr(0, words * 16));
    CHECK(memory[words].low == 7);  // nothing behind its end
    // The copies that are expected, counted in the text.
    CanarySearch search({{"a", canary}});
    search.feed(expected.substr(0, words * 16));
    CHECK(copies_in(words) == search.hits()[0].count);
    Hits hits = no_hits;
    find_words(memory.data(), words, 0, words_of_canary(canary), &hits);
    CHECK(hits.count == search.hits()[0].count);
  }
}

TEST_CASE(
    "a planted canary is found at its place and by its count, but not in noise or with a flipped byte") {
  FakeGpu gpu(64);
  const auto canary = make_canary("a");
  CHECK(search({canary}).found.empty());

  const std::size_t own = 8 * FakeGpu::page;
  put(gpu.memory, own, canary.text);
  put(gpu.memory, own + 160, canary.text);
  put(gpu.memory, own + 40 * FakeGpu::page + 48, canary.text);
  const auto report = search({canary, make_canary("b")});
  REQUIRE(report.found.size() == 1);
  CHECK(report.found[0].canary == "a");
  CHECK(report.found[0].path == "cuda:0000:19:00.0");
  CHECK(report.found[0].count == 3);
  // Before what is searched lie two pages with the counts of two canaries; the last copy is in another piece.
  CHECK(report.found[0].first == own - 2 * FakeGpu::page);
  CHECK(report.found[0].last == report.found[0].first + 40 * FakeGpu::page + 48);
  CHECK(report.total_bytes == 64 * FakeGpu::page + chip_total);
  CHECK(report.scanned_bytes <= report.total_bytes);

  for (const std::size_t byte : {0, 9, 15, 16, 31}) {
    gpu.memory[own + 160 + byte] ^= std::byte{1};
    CHECK(search({canary}).found[0].count == 2);
    gpu.memory[own + 160 + byte] ^= std::byte{1};
  }
  CHECK(search({canary}).found[0].count == 3);
}

TEST_CASE("what one tenant fills the next finds, unless the driver clears it") {
  FakeGpu gpu(2000);
  const auto canary = make_canary("tenant-a");
  const auto filled = fill_gpu(address, canary.text, time_enough);
  CHECK(filled.total == 2000 * FakeGpu::page + chip_total);
  CHECK(filled.read_back);
  // All but the pages of small values, and a rest that is smaller than the smallest piece.
  CHECK(filled.bytes >= (2000 - 1 - 16) * FakeGpu::page + chip_scanned);
  CHECK(filled.bytes < filled.total);
  gpu.memory[700 * FakeGpu::page] ^= std::byte{1};  // the first byte of a copy
  const auto report = search({canary});
  REQUIRE(report.found.size() == 3);
  CHECK(report.found[0].path == "cuda:0000:19:00.0/registers");
  CHECK(report.found[0].count == FakeGpu::multiprocessors * register_threads * register_words);
  CHECK(report.found[0].last < FakeGpu::multiprocessors * FakeGpu::register_bytes);
  const auto& shared = report.found[1];
  CHECK(shared.path == "cuda:0000:19:00.0/shared_memory");
  // 625 words: two pages of 85 copies, and 113 words, which hold 38.
  CHECK(shared.count == FakeGpu::multiprocessors * 208);
  CHECK(shared.first == 0);
  CHECK(shared.last == 2 * FakeGpu::shared_bytes + 2 * 4096 + 37 * 48);
  const auto& device = report.found[2];
  CHECK(device.path == "cuda:0000:19:00.0");
  const auto pages = (report.scanned_bytes - chip_scanned) / FakeGpu::page;
  CHECK(pages >= 2000 - 2 - 16);
  CHECK(device.count < pages * 85);
  CHECK(device.count > (pages - 2) * 85);

  gpu.keeps_memory = false;
  gpu.keeps_shared = false;
  gpu.keeps_registers = false;
  CHECK(search({canary}).found.empty());
  CHECK(fill_gpu(address, canary.text, time_enough).read_back);  // within one process all is there
}

TEST_CASE(
    "shared memory and registers count as searched only where a kernel's canary reaches the next kernel") {
  FakeGpu gpu(40);
  const auto with = search({make_canary("a")});
  gpu.keeps_shared = false;
  const auto without = search({make_canary("a")});
  CHECK(with.scanned_bytes - without.scanned_bytes == shared_total);
  CHECK(with.total_bytes == without.total_bytes);
  gpu.keeps_registers = false;
  const auto nothing = search({make_canary("a")});
  CHECK(without.scanned_bytes - nothing.scanned_bytes == registers_scanned);
  CHECK(nothing.total_bytes == with.total_bytes);
}

TEST_CASE("a canary in a few registers of one multiprocessor is found there, before kernels overwrite it") {
  FakeGpu gpu(40);
  const auto canary = make_canary("a");
  const auto word = register_word(words_of_canary(canary.text));
  // The last one gets no block at first.
  gpu.registers[2][7] = word;
  gpu.registers[2][register_words * 255] = word;
  gpu.registers[2][register_words * 255 + 1] = word ^ 1;
  const auto report = search({make_canary("b"), canary});
  REQUIRE(report.found.size() == 1);
  CHECK(report.found[0].canary == "a");
  CHECK(report.found[0].path == "cuda:0000:19:00.0/registers");
  CHECK(report.found[0].count == 2);
  CHECK(report.found[0].first == 2 * FakeGpu::register_bytes);
  CHECK(search({canary}).found.empty());  // the control of the search before has overwritten them
}

TEST_CASE("memory in small pieces is taken to the last, and no more than a search may look at") {
  FakeGpu gpu(600);
  gpu.most_piece = 100 * FakeGpu::page;
  CHECK(search({make_canary("a")}).scanned_bytes >= (600 - 2 - 16) * FakeGpu::page + chip_scanned);
  CHECK(search({make_canary("a")}, 50 * FakeGpu::page).scanned_bytes == 50 * FakeGpu::page + chip_scanned);
  gpu.taken = 300 * FakeGpu::page;
  const auto report = search({make_canary("a")});
  CHECK(report.scanned_bytes < 301 * FakeGpu::page + chip_scanned);
  CHECK(report.total_bytes == 600 * FakeGpu::page + chip_total);
}

TEST_CASE("a GPU that is full, or not there, is an error in words") {
  FakeGpu gpu(40);
  gpu.taken = 38 * FakeGpu::page;
  CHECK_THROWS_WITH(fill_gpu(address, make_canary("a").text, time_enough),
                    Contains("fill GPU 0000:19:00.0: none of its 163840 bytes of memory are free"));
  gpu.taken = 40 * FakeGpu::page;
  CHECK_THROWS_WITH(search({make_canary("a")}), Contains("no memory of the GPU is free"));
  CHECK_THROWS_WITH(search_gpu("0000:1a:00.0", {}, {}), Contains("find GPU 0000:1a:00.0 by CUDA"));
  CHECK(gpu_lack(address).empty());
  CHECK_THAT(gpu_lack("0000:1a:00.0"), Contains("find GPU 0000:1a:00.0 by CUDA"));
  gpu.missing = cudaErrorInsufficientDriver;
  CHECK_THAT(gpu_lack(address), Contains("no NVIDIA driver here"));
  gpu.missing = cudaErrorECCUncorrectable;
  CHECK_THROWS_WITH(gpu_lack(address), Contains("uncorrectable error"));
}

TEST_CASE("without time nothing is filled") {
  FakeGpu gpu(40);
  CHECK_THROWS_AS(fill_gpu(address, make_canary("a").text, std::chrono::seconds{0}), Error);
}

TEST_CASE("functions of NVIDIA's are told from others, and GPUs' paths from files") {
  const TemporaryFolder folder;
  const auto has_vendor = [&](const std::string& name, const std::string& vendor) {
    const auto path = folder.path / "sys/bus/pci/devices" / name;
    std::filesystem::create_directories(path);
    std::ofstream(path / "vendor") << vendor << '\n';
    return is_nvidia(folder.path, name);
  };
  CHECK(has_vendor("0000:19:00.0", "0x10de"));
  CHECK_FALSE(has_vendor("0000:1b:00.0", "0x1002"));
  CHECK_FALSE(is_nvidia(folder.path, "0000:1c:00.0"));
  CHECK(address_of_gpu(gpu_path(address)) == address);
  CHECK_FALSE(address_of_gpu("/dev/nvme0n1"));
}
