#include "workloads/resnet50/cuda/engine/plan_cache.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::resnet50::cuda;

namespace {

/// A folder that goes when the test ends.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("virtrain-plans-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

}  // namespace

TEST_CASE("what one run found out, the next one knows, and each machine has its own") {
  const Folder folder;
  const auto file = folder.path / "cache" / "plans.json";
  PlanCache first(file, "H200, cuDNN 9.19.0");
  CHECK_FALSE(first.find("convolution"));
  first.set("convolution", "eng1_k2=3");
  CHECK(first.save());
  PlanCache other(file, "A100, cuDNN 9.19.0");
  CHECK_FALSE(other.find("convolution"));
  other.set("convolution", "eng7");
  CHECK(other.save());
  CHECK(PlanCache(file, "H200, cuDNN 9.19.0").find("convolution") == "eng1_k2=3");
  CHECK(PlanCache(file, "A100, cuDNN 9.19.0").find("convolution") == "eng7");
  CHECK(std::distance(std::filesystem::directory_iterator(file.parent_path()), {}) ==
        1);  // nothing left beside it
}

TEST_CASE("a GPU's part in a guest takes what the whole was found to do best, if it is asked to") {
  const Folder folder;
  const auto file = folder.path / "plans.json";
  const auto key = [](const char* gpu, int capability, const char* driver, const char* cudnn) {
    return machine_key(gpu, capability, driver, 13000, cudnn);
  };
  PlanCache host(file, key("NVIDIA H200", 90, "580.65.06", "9.19.0"));
  host.set("fusion", "full; norm 64->64 56x56 k3 s1");
  CHECK(host.save());
  const PlanCache guest(file, key("NVIDIA H200-35C, vGPU", 90, "580.65.03", "9.19.0"));
  CHECK_FALSE(guest.find("fusion"));
  CHECK(guest.find_alike("fusion") == "full; norm 64->64 56x56 k3 s1");
  CHECK(host.find_alike("fusion") == "full; norm 64->64 56x56 k3 s1");
  CHECK_FALSE(guest.find_alike("convolution"));
  CHECK_FALSE(PlanCache(file, key("NVIDIA A100", 80, "580.65.06", "9.19.0")).find_alike("fusion"));
  CHECK_FALSE(PlanCache(file, key("NVIDIA H200", 90, "580.65.06", "9.20.0")).find_alike("fusion"));
}

TEST_CASE("a rank that reads the file again knows what another has saved meanwhile") {
  const Folder folder;
  const auto file = folder.path / "plans.json";
  PlanCache first(file, "H200"), second(file, "H200");
  first.set("convolution", "eng1_k2=3");
  CHECK(first.save());
  CHECK_FALSE(second.find("convolution"));
  second = PlanCache(file, "H200");
  CHECK(second.find("convolution") == "eng1_k2=3");
}

TEST_CASE("another driver is another machine, though it serves the same CUDA") {
  CHECK(machine_key("NVIDIA H200", 90, "580.65.06", 13000, "9.19.0") ==
        "NVIDIA H200, sm_90, driver 580.65.06, cuDNN 9.19.0");
  CHECK(machine_key("NVIDIA H200", 90, "580.82.07", 13000, "9.19.0") !=
        machine_key("NVIDIA H200", 90, "580.65.06", 13000, "9.19.0"));
  CHECK(machine_key("NVIDIA H200", 90, std::nullopt, 13000, "9.19.0") ==
        "NVIDIA H200, sm_90, CUDA driver 13000, cuDNN 9.19.0");
}

TEST_CASE("the cache's place is XDG's, or below the home, and without either there is none") {
  const auto place = [](const char* cache, const char* home) {
    for (const auto& [name, value] : {std::pair("XDG_CACHE_HOME", cache), std::pair("HOME", home)}) {
      value == nullptr ? unsetenv(name) : setenv(name, value, 1);
    }
    return plan_cache_file();
  };
  CHECK(place("/c", "/h") == "/c/virtrain/cudnn-plans.json");
  CHECK(place(nullptr, "/h") == "/h/.cache/virtrain/cudnn-plans.json");
  CHECK(place("", "/h") == "/h/.cache/virtrain/cudnn-plans.json");
  CHECK(place("c", "/h") == "/h/.cache/virtrain/cudnn-plans.json");  // XDG: what is relative is ignored
  CHECK(place(nullptr, nullptr).empty());
  CHECK(place("", "").empty());
  PlanCache none("", "m");
  none.set("g", "eng1");
  CHECK(none.find("g") == "eng1");
  CHECK_FALSE(none.save());
  CHECK_FALSE(PlanCache("", "m").find("g"));
}

TEST_CASE("a cache that cannot be read or written is as good as none") {
  const Folder folder;
  const auto file = folder.path / "plans.json";
  for (const char* content : {"", "{", "[]", R"({"m": 1})", R"({"m": {"g": 2}})"}) {
    std::ofstream(file) << content;
    PlanCache cache(file, "m");
    CHECK_FALSE(cache.find("g"));
    cache.set("g", "eng1");
    CHECK(cache.save());
    CHECK(PlanCache(file, "m").find("g") == "eng1");
  }
  PlanCache nowhere("/proc/none/plans.json", "m");
  nowhere.set("g", "eng1");
  CHECK_FALSE(nowhere.save());
}
