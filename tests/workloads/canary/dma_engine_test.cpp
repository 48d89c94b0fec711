// A device that the test plays: a thread that does what QEMU's edu does with its registers, in this process's
// memory.

#include "workloads/canary/dma_engine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "tests/lab/edu_engine.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "workloads/canary/requests.h"

using namespace virtrain;
using namespace virtrain::canary;

namespace {

constexpr std::size_t region_bytes = std::size_t{1} << 20;

/// Addresses on its bus are those of this process. It is refused what lies in `closed`.
class PlayedEdu {
 public:
  PlayedEdu() : path_(folder_.path / "resource0") {
    std::ofstream(folder_.path / "vendor") << "0x1234\n";
    std::ofstream(folder_.path / "device") << "0x11e8\n";
    std::ofstream(folder_.path / "config") << std::string(64, '\0');
    std::ofstream(path_) << std::string(region_bytes, '\0');
    const UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    registers_ =
        static_cast<char*>(::mmap(nullptr, region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    thread_ = std::thread([this] { play(); });
  }
  ~PlayedEdu() {
    over_ = true;
    thread_.join();
    ::munmap(registers_, region_bytes);
  }
  PlayedEdu(const PlayedEdu&) = delete;
  PlayedEdu& operator=(const PlayedEdu&) = delete;

  static std::uint64_t bus_address(const LockedPage& page) {
    return reinterpret_cast<std::uint64_t>(page.data());
  }
  std::unique_ptr<DmaEngine> engine() const { return edu_engine(folder_.path, &PlayedEdu::bus_address); }
  void close(const LockedPage& page) { closed_.insert(bus_address(page)); }

 private:
  std::uint64_t value(std::size_t offset) const {
    return *reinterpret_cast<volatile std::uint64_t*>(registers_ + offset);
  }

  void play() {
    while (!over_) {
      const auto command = value(0x98);
      if ((command & 1) != 0) {
        const auto from = value(0x80), to = value(0x88);
        const bool is_out = (command & 2) != 0;
        const auto address = is_out ? to : from;
        CHECK((is_out ? from : to) == 0x40000);
        if (!closed_.contains(address)) {
          auto* memory = reinterpret_cast<char*>(address);
          std::memcpy(is_out ? memory : buffer_, is_out ? buffer_ : memory, value(0x90));
        }
        *reinterpret_cast<volatile std::uint64_t*>(registers_ + 0x98) = command & ~std::uint64_t{1};
      }
      std::this_thread::yield();
    }
  }

  TemporaryFolder folder_;
  std::filesystem::path path_;
  char* registers_ = nullptr;
  char buffer_[LockedPage::size] = {};
  std::set<std::uint64_t> closed_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

BusRange range_of(const std::string& name, const LockedPage& page) {
  return {name, PlayedEdu::bus_address(page), LockedPage::size};
}

}  // namespace

TEST_CASE("a device brings what it reaches, and nothing of what it was refused") {
  PlayedEdu device;
  const auto own = make_canary("own"), theirs = make_canary("theirs");
  const LockedPage open, closed;
  own.text.copy(open.data(), LockedPage::size);
  theirs.text.copy(closed.data() + 100, LockedPage::size - 100);
  const auto engine = device.engine();
  REQUIRE(engine);
  const std::vector<Canary> canaries{own, theirs};
  const std::vector<BusRange> both{range_of("open", open), range_of("closed", closed)};
  const auto reached = read_by_device(*engine, canaries, both, std::chrono::seconds{30});
  REQUIRE(reached.size() == 2);
  CHECK(reached[0].found == std::vector<std::string>{"own"});
  CHECK(reached[1].found == std::vector<std::string>{"theirs"});  // the planted leak
  CHECK(reached[1].scanned == LockedPage::size);
  device.close(closed);
  const auto refused = read_by_device(*engine, canaries, both, std::chrono::seconds{30});
  CHECK(refused[0].found == std::vector<std::string>{"own"});
  CHECK(refused[1].found.empty());  // nor what the engine has kept of the read before
}

TEST_CASE("a large range is sampled from its first page to its last, and time is bounded") {
  class Counting : public DmaEngine {
   public:
    std::vector<std::uint64_t> pages;
    PageRead read(std::uint64_t address, std::size_t bytes) override {
      pages.push_back((address - 0x100000) / LockedPage::size);
      return {std::string(bytes, '\0'), ""};
    }
  };
  Counting engine;
  const std::vector<BusRange> range{{"region", 0x100000, std::uint64_t{4} << 20}};
  const auto reads = read_by_device(engine, {make_canary("a")}, range, std::chrono::seconds{30});
  REQUIRE(engine.pages.size() == 8);
  CHECK(engine.pages.front() == 0);
  CHECK(engine.pages.back() == 1023);
  CHECK(reads.at(0).scanned == 8 * LockedPage::size);
  CHECK(reads.at(0).total == std::uint64_t{4} << 20);
  CHECK(read_by_device(engine, {}, range, std::chrono::seconds{0}).at(0).scanned == 0);
}

TEST_CASE("a page that an engine could not be told to read is not scanned, and the reason stays") {
  class Choosy : public DmaEngine {
   public:
    explicit Choosy(const std::string& text) : text_(text) {}
    PageRead read(std::uint64_t address, std::size_t /*bytes*/) override {
      if (address / LockedPage::size % 2 == 1) { return {"", "map page: Operation not permitted"}; }
      return {text_ + std::string(LockedPage::size - text_.size(), '\0'), ""};
    }

   private:
    std::string text_;
  };
  const auto canary = make_canary("a");
  Choosy engine(canary.text);
  const auto read = [&](std::uint64_t pages) {
    return read_by_device(engine, {canary}, {{"region", 0, pages * LockedPage::size}},
                          std::chrono::seconds{30})
        .at(0);
  };
  CHECK(read(1).refused.empty());
  const auto half = read(4);
  CHECK(half.scanned == 2 * LockedPage::size);
  CHECK(half.total == 4 * LockedPage::size);
  CHECK(half.found == std::vector<std::string>{"a"});
  CHECK(half.refused == "map page: Operation not permitted");
  CHECK(message_json(half).at("refused") == half.refused);
}

TEST_CASE("the engine of a known device is found, and an edu made a bus master") {
  const TemporaryFolder folder;
  const auto plant = [&](const std::string& address, const std::string& vendor, const std::string& device,
                         const std::string& class_code) {
    const auto function = folder.path / "sys/bus/pci/devices" / address;
    std::filesystem::create_directories(function);
    std::ofstream(function / "vendor") << vendor << "\n";
    std::ofstream(function / "device") << device << "\n";
    std::ofstream(function / "class") << class_code << "\n";
    std::ofstream(function / "config") << std::string(64, '\0');
    std::ofstream(function / "resource0") << std::string(region_bytes, '\0');
    return function;
  };
  const auto command = [](const std::filesystem::path& function) {
    std::string bytes(64, '\0');
    std::ifstream(function / "config").read(bytes.data(), 64);
    return bytes[4];
  };
  const LockedPage own;
  const auto found = [&] { return find_engine(folder.path, own, &edu_engine, &PlayedEdu::bus_address); };
  const auto other = plant("0000:00:02.0", "0x1234", "0x1111", "0x030000");  // QEMU's display
  const auto sound = plant("0000:00:04.1", "0x10de", "0x10f8", "0x040300");  // of a GPU's card
  CHECK(found() == nullptr);
  const auto edu = plant("0000:00:10.0", "0x1234", "0x11e8", "0x00ff00");
  CHECK(find_engine(folder.path, own, {}, &PlayedEdu::bus_address) == nullptr);
  CHECK(command(edu) == 0);
  CHECK(found() != nullptr);
  CHECK(command(edu) == 0x6);
  CHECK(command(other) == 0);
  CHECK(command(sound) == 0);
  std::filesystem::remove_all(edu);
  plant("0000:00:04.0", "0x10de", "0x20f1", "0x030200");
  try {
    CHECK(found() != nullptr);
  } catch (const Error& error) { CHECK_THAT(error.what(), test::Contains("was built without CUDA")); }
}

TEST_CASE("a request to read by a device names its control and where to read") {
  const auto text = make_canary("a").text;
  const nlohmann::json good{{"canaries", {{"a", text}}},
                            {"control", "a"},
                            {"own", {"/sys/x/resource2"}},
                            {"ranges", {{{"name", "r"}, {"address", 0x8000000000}, {"bytes", 4096}}}}};
  const auto request = read_request<PeerRequest>(good.dump());
  CHECK(request.ranges.at(0).address == 0x8000000000);
  CHECK(request.own.size() == 1);
  auto bad = good;
  bad.erase("control");
  CHECK_THROWS_AS(read_request<PeerRequest>(bad.dump()), Error);
  bad = good;
  bad["ranges"][0]["address"] = "here";
  CHECK_THROWS_AS(read_request<PeerRequest>(bad.dump()), Error);
}
