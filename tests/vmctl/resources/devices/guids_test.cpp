#include "vmctl/resources/devices/guids.h"

#include <fstream>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* physical = "0000:98:00.0";
constexpr const char* function = "0000:98:00.3";  // the second of its virtual functions
constexpr const char* zeros = "00:00:00:00:00:00:00:00";
const DeviceGrant grant{GrantKind::virtual_function, function, physical};

/// The folders of an adapter with two virtual functions, as NVIDIA's own driver package shows them.
struct Adapter {
  explicit Adapter(const char* link_layer = "InfiniBand") {
    write("infiniband/mlx5_0/ports/1/link_layer", link_layer);
    write("infiniband/mlx5_0/node_guid", "b8ce:f603:0012:3456");
    for (const auto* index : {"0", "1"}) {
      const auto folder = std::string("sriov/") + index + "/";
      write(folder + "node", zeros);
      write(folder + "port", zeros);
      write(folder + "policy", "Down");
    }
    fs::create_symlink("../0000:98:00.2", devices() / physical / "virtfn0");
    fs::create_symlink("../0000:98:00.3", devices() / physical / "virtfn1");
    fs::create_directories(devices() / function);
    fs::create_symlink(std::string("../") + physical, devices() / function / "physfn");
  }
  fs::path devices() const { return folder_.path; }
  void write(const std::string& file, const std::string& text) const {
    const auto path = devices() / physical / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::string read(const std::string& file) const {
    return read_value(devices() / physical / file).value_or("");
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("a virtual function of an InfiniBand adapter gets GUIDs and gives them back") {
  const Adapter adapter;
  const auto effect = guids_effect(grant, adapter.devices());
  REQUIRE(effect);
  CHECK(effect->kind == EffectKind::guids);
  CHECK(effect->name == function);
  CHECK(guids_left(*effect, adapter.devices()).empty());

  set_guids(*effect, adapter.devices());
  const auto guid = guid_of("b8ce:f603:0012:3456", 1);
  CHECK(adapter.read("sriov/1/node") == guid);
  CHECK(adapter.read("sriov/1/port") == guid);
  CHECK(adapter.read("sriov/1/policy") == "Follow");
  CHECK(adapter.read("sriov/0/node") == zeros);  // its neighbour's
  CHECK(guids_left(*effect, adapter.devices()) == "GUID " + guid);

  clear_guids(*effect, adapter.devices());
  CHECK(adapter.read("sriov/1/node") == zeros);
  CHECK(adapter.read("sriov/1/port") == zeros);
  CHECK(adapter.read("sriov/1/policy") == "Down");
  clear_guids(*effect, adapter.devices());  // as after a kill: once more is harmless
}

TEST_CASE("GUIDs that were cut off halfway are cleared, and others' are left alone") {
  const Adapter adapter;
  const auto effect = guids_effect(grant, adapter.devices()).value();
  adapter.write("sriov/1/node", guid_of("b8ce:f603:0012:3456", 1));  // killed before the port's
  CHECK_FALSE(guids_left(effect, adapter.devices()).empty());
  clear_guids(effect, adapter.devices());
  CHECK(adapter.read("sriov/1/node") == zeros);

  adapter.write("sriov/1/node", "0c:42:a1:03:00:11:22:33");
  adapter.write("sriov/1/port", "0c:42:a1:03:00:11:22:33");
  CHECK(guids_left(effect, adapter.devices()).empty());
  clear_guids(effect, adapter.devices());
  CHECK(adapter.read("sriov/1/node") == "0c:42:a1:03:00:11:22:33");
  CHECK_FALSE(guids_effect(grant, adapter.devices()));  // its administrator's
}

TEST_CASE("nothing is left of the GUIDs of a function that is gone") {
  const Adapter adapter;
  const auto effect = guids_effect(grant, adapter.devices()).value();
  set_guids(effect, adapter.devices());
  fs::remove_all(adapter.devices() / function);
  fs::remove(adapter.devices() / physical / "virtfn1");
  CHECK(guids_left(effect, adapter.devices()).empty());
  clear_guids(effect, adapter.devices());
  CHECK_THROWS_AS(set_guids(effect, adapter.devices()), Error);
}

TEST_CASE("Ethernet adapters and whole functions have no GUIDs to be given") {
  const Adapter ethernet("Ethernet");
  CHECK_FALSE(guids_effect(grant, ethernet.devices()));
  const Adapter infiniband;
  CHECK_FALSE(guids_effect({GrantKind::passthrough, physical}, infiniband.devices()));
  fs::remove_all(infiniband.devices() / physical / "sriov");
  try {
    guids_effect(grant, infiniband.devices());
    FAIL("there is nowhere to write them");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    CHECK_THAT(error.what(),
               virtrain::test::Contains("0000:98:00.0 has neither sriov/1/node nor a network interface"));
  }
}

TEST_CASE("each function of each adapter has a GUID of its own, which is local and the same every time") {
  std::set<std::string> guids;
  for (const auto* adapter : {"b8ce:f603:0012:3456", "b8ce:f603:0012:3457"}) {
    for (int index = 0; index < 8; ++index) { guids.insert(guid_of(adapter, index)); }
  }
  CHECK(guids.size() == 16);
  const auto guid = guid_of("b8ce:f603:0012:3456", 1);
  CHECK(guid == guid_of("b8ce:f603:0012:3456", 1));
  CHECK(guid.size() == std::string(zeros).size());
  CHECK(guid.starts_with("02:"));
}

TEST_CASE("what ip tells of virtual functions, since Linux 5.5 with their GUIDs") {
  const std::string text =
      "4: ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 2044 qdisc mq state UP mode DEFAULT group default qlen "
      "256\n"
      "    link/infiniband 00:00:10:29:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:12:34:56 brd 00:ff\n"
      "    vf 0     link/infiniband 00:00 brd 00:ff, spoof checking off, NODE_GUID 02:aa:00:00:00:00:00:01, "
      "PORT_GUID 02:aa:00:00:00:00:00:02, link-state auto, trust off, query_rss off\n"
      "    vf 1     link/infiniband 00:00 brd 00:ff, spoof checking off, link-state disable, trust off, "
      "query_rss off\n";
  CHECK(parse_ip_link(text, 0) == VfIdentity{"02:aa:00:00:00:00:00:01", "02:aa:00:00:00:00:00:02", "Follow"});
  CHECK(parse_ip_link(text, 1) == VfIdentity{zeros, zeros, "Down"});
  CHECK_FALSE(parse_ip_link(text, 2));
}

}  // namespace
}  // namespace virtrain::vmctl
