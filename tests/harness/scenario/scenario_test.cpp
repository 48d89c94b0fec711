#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/scenario/decode/decode.h"
#include "harness/scenario/decode/input_file.h"
#include "tests/harness/scenario/small_scenario.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;
using virtrain::test::EndsWith;
using virtrain::test::StartsWith;

namespace {

const std::filesystem::path source = VIRTRAIN_SOURCE_DIR;

std::vector<std::filesystem::path> yaml_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") { files.push_back(entry.path()); }
  }
  return files;
}

/// What the decoder says of a text it must refuse.
std::string refusal(const std::string& text) {
  try {
    decode_scenario(text, "x.yaml");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    CHECK(exit_status(error.code()) == 3);
    return error.message();
  }
  return "(accepted)";
}

std::vector<std::string> arm_names(const Scenario& scenario) {
  std::vector<std::string> names;
  for (const auto& arm : scenario.arms) { names.push_back(arm.name); }
  return names;
}

}  // namespace

TEST_CASE("every shipped scenario decodes without a warning that surprises") {
  const auto files = yaml_files(source / "scenarios");
  CHECK(files.size() >= 10);
  for (const auto& file : files) {
    INFO(file);
    const auto scenario = load_scenario(file);
    CHECK(scenario.name == file.stem());
    CHECK(scenario.text == read_file(file));
    CHECK(scenario.warnings.size() ==
          (scenario.pairs > 1 && scenario.pairs % 2 == 1 && scenario.arms.size() > 1 && !scenario.isolation
               ? 1
               : 0));
  }
}

TEST_CASE("every refusal names the place and says what is wrong") {
  const auto files = yaml_files(source / "tests/data/refusals");
  CHECK(files.size() >= 90);
  for (const auto& file : files) {
    INFO(file);
    const auto text = read_file(file).value();
    const auto first_line = split(text, '\n').at(0);
    REQUIRE_THAT(first_line, StartsWith("# expect: "));
    const auto expected = first_line.substr(std::string("# expect: ").size());
    const auto words_at = expected.find(": ");  // after LINE:COL
    REQUIRE(words_at != std::string::npos);
    const auto said = refusal(text);
    INFO(said);
    bool found = false;
    for (const auto& line : split(said, '\n')) {
      found = found || (line.starts_with("x.yaml:" + expected.substr(0, words_at + 2)) &&
                        line.find(expected.substr(words_at + 2)) != std::string::npos);
    }
    CHECK(found);
  }
}

TEST_CASE("a misspelt key that a scenario must have is one error") {
  const auto text = read_file(source / "tests/data/refusals/typo-tenants-alone.yaml").value();
  CHECK(split(refusal(text), '\n').size() == 1);
  CHECK(split(refusal("name: x\nworkload: {model: resnet50}\nguest: {vcpus: 1, memory: 1GiB}\ncase: []\n"),
              '\n')
            .size() == 1);
}

TEST_CASE("one reading shows every mistake in file order, and at most twenty") {
  const auto two = refusal(small_scenario("pairs: 0\nreuse: never\n"));
  CHECK_THAT(two, StartsWith("x.yaml:6:8: pairs: '0' is not allowed"));
  CHECK_THAT(two, Contains("\nx.yaml:7:8: reuse: 'never' is not allowed (allowed: trial, case)"));
  std::string many;
  for (int i = 0; i < 30; ++i) { many += "key" + std::to_string(i) + ": 1\n"; }
  CHECK(split(refusal(small_scenario(many)), '\n').size() == 21);
  CHECK_THAT(refusal(small_scenario(many)), EndsWith("x.yaml: and 10 more"));
}

TEST_CASE("a scenario is at most 1 MiB") {
  const auto fill = [](std::size_t bytes) {
    auto text = small_scenario("# ");
    return text + std::string(bytes - text.size(), 'x');
  };
  CHECK_NOTHROW(decode_scenario(fill(max_scenario_bytes), "x.yaml"));
  CHECK_THAT(refusal(fill(max_scenario_bytes + 1)),
             Contains("x.yaml:1:1: the file has more than 1 MiB (allowed: at most 1 MiB)"));
}

TEST_CASE("row 7: a scenario takes bounded time and memory whatever its megabyte says") {
  const auto started = std::chrono::steady_clock::now();
  // yaml-cpp's LoadAll makes documents of these until the memory is used up.
  CHECK(refusal(",") == "x.yaml:1:1: not YAML: no value begins so");
  CHECK_THAT(refusal("]"), StartsWith("x.yaml:1:1: "));
  CHECK_THAT(refusal("name: x\n}\n"), StartsWith("x.yaml:2:1: "));
  CHECK_THAT(refusal(small_scenario() + ",\n"), StartsWith("x.yaml:6:1: "));
  const auto many = [](const std::string& piece, std::size_t bytes = 1'000'000) {
    std::string text;
    while (text.size() + piece.size() < bytes) { text += piece; }
    return text;
  };
  // Aliases written out: ten of ten of ten … values.
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 30; ++i) {
    bomb +=
        fmt::format("a{0}: &a{0} [{1}]\n", i, fmt::join(std::vector(10, fmt::format("*a{}", i - 1)), ","));
  }
  CHECK_THAT(refusal(bomb), Contains("more than 100000 values, those of aliases counted each time"));
  CHECK_THAT(refusal(many("- ")), Contains("nested too deeply"));
  CHECK_THAT(refusal(many("? ")), Contains("nested too deeply"));
  CHECK_THAT(refusal(many("{a: ")), Contains("nested too deeply"));
  CHECK_THAT(refusal("[" + many("1,")), Contains("more than 100000 values"));
  CHECK_THAT(refusal(many("k: v\n")), Contains("more than 100000 values"));
  CHECK_THAT(refusal(many("---\n")), Contains("one YAML document"));
  CHECK_THAT(refusal(many("x", 900'000) + ": 1"), StartsWith("x.yaml:1:900000: not YAML"));
  CHECK_THAT(refusal("\"" + many("x", 900'000) + "\": 1"), StartsWith("x.yaml:1:900002: not YAML"));
  CHECK_THAT(refusal(many("&a ")), StartsWith("x.yaml:1:"));
  CHECK_THAT(refusal(many("!t ")), StartsWith("x.yaml:1:"));
  CHECK(refusal("|\n" + many(" x\n")) == "x.yaml:1:1: the scenario must be a mapping of keys to values");
  CHECK_THAT(refusal("a: " + many("x \n  ")), StartsWith("x.yaml:1:1"));
  CHECK_THAT(refusal(many("#\n")), Contains("empty"));
  // Every key is unknown, or a variable.
  std::string names;
  for (int i = 0; names.size() < 1'000'000 && i < 45'000; ++i) { names += fmt::format("nmae{}: 1\n", i); }
  CHECK_THAT(refusal(names), Contains("and 45000 more") || Contains("more"));
  std::string environment;
  for (int i = 0; i < 45'000; ++i) { environment += fmt::format("V{}: x, ", i); }
  CHECK_THAT(refusal("workload: {env: {" + environment + "}}"),
             Contains("env has 45000 variables (allowed: at most 1024)"));
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  CHECK(seconds < 20);
}

TEST_CASE("row 18: as many trials as a plan can hold, and no more") {
  std::string cases = "name: x\nworkload: {model: resnet50}\nguest: {vcpus: 1, memory: 512MiB}\ncases:\n";
  for (int i = 0; i < 256; ++i) { cases += fmt::format("  - {{name: c{}, tenants: [{{nodes: 1}}]}}\n", i); }
  CHECK_THAT(refusal(cases + "pairs: 10000\n"),
             StartsWith("x.yaml:261:8: 256 cases in 2 arms, 10000 times, are 5120000 trials"));
  CHECK(decode_scenario(cases + "pairs: 96\n", "x.yaml").cases.size() == 256);
  CHECK(decode_scenario(small_scenario("pairs: 10000\n"), "x.yaml").pairs == 10'000);
  CHECK_THAT(refusal("name: x\nworkload: {model: resnet50}\nguest: {vcpus: 1, memory: 512MiB}\ncases:\n"
                     "  - {name: one, tenants: [{nodes: 64}]}\npairs: 10000\n"),
             Contains("20000 trials of 1280000 nodes in all"));
}

TEST_CASE("hostile bytes are refused with printable words") {
  CHECK_THAT(refusal(small_scenario("\"\\e[2J\": 1\n")), Contains("unknown key '\uFFFD[2J'"));
  CHECK_THAT(refusal(small_scenario("pairs: \"\\u0001\"\n")), Contains("x.yaml:6:8: "));
  CHECK_THAT(refusal(std::string("name: \xff\xfe\n")), Contains("x.yaml:1:"));
  CHECK_THAT(refusal(std::string(300'000, '[')), Contains("not YAML"));
  CHECK_THAT(refusal(std::string(500'000, '\n') + "x"), Contains("x.yaml:500001:1: the scenario must be"));
}

TEST_CASE("a scenario is UTF-8, in its comments too") {
  const auto words = [](const std::string& text) {
    try {
      decode_scenario(text, "s.yaml");
    } catch (const Error& error) { return std::string(error.message()); }
    return std::string("(decoded)");
  };
  CHECK(words("name: small\n# caf\xE9\n") ==
        "s.yaml:2:6: these bytes are not UTF-8 (save the file as UTF-8)");
  CHECK(words("\xFF") == "s.yaml:1:1: these bytes are not UTF-8 (save the file as UTF-8)");
}

TEST_CASE("a file that is not there is refused with its name") {
  CHECK_THROWS_WITH(load_scenario("/nonexistent/x.yaml"),
                    Contains("/nonexistent/x.yaml: no such file (virtrain scenarios lists those that ship)"));
}

TEST_CASE("what is not said has its default") {
  const auto s = decode_scenario(small_scenario(), "x.yaml");
  CHECK(arm_names(s) == std::vector<std::string>{arm_bare_metal, arm_vm});
  CHECK(s.pairs == 6);
  CHECK(s.reuse == Reuse::trial);
  CHECK_FALSE(s.oversubscribe);
  CHECK(s.settle_ns == 0);
  CHECK(s.boot_timeout_ns == 90'000'000'000);
  CHECK(s.trial_timeout_ns == 3'600'000'000'000);
  CHECK_FALSE(s.vm_vs_bare_metal);
  CHECK(s.guest.image == "mirror");
  CHECK(s.guest.pinning == Pinning::cores);
  CHECK(s.devices.kind == DeviceKind::none);
  REQUIRE(s.cases.size() == 1);
  const auto& tenant = s.cases[0].tenants.at(0);
  CHECK(tenant.name == "tenant-1");
  CHECK(tenant.ranks_per_node == 1);
  CHECK(tenant.workload.precision == Precision::fp32);
  CHECK(tenant.workload.batch_size == 32);
  CHECK(tenant.workload.image_size == 224);
  CHECK_FALSE(tenant.workload.threads);
}

TEST_CASE("persistence is switched on for what the driver would forget without it") {
  const auto persistence = [](const std::string& settings) {
    const auto devices = "devices: {kind: passthrough, settings: {" + settings + "}}\n";
    return decode_scenario(small_scenario(devices), "x.yaml").devices.settings.persistence;
  };
  CHECK(persistence("power_limit: 250W") == true);
  CHECK(persistence("graphics_clock: 1410MHz") == true);
  CHECK(persistence("power_limit: 250W, persistence: on") == true);
  CHECK(persistence("ecc: on, persistence: off") == false);
  CHECK_FALSE(persistence("ecc: on"));
}

TEST_CASE("each value lands in its field") {
  const auto s = decode_scenario(R"(
name: full
description: "words: with colons"
workload: {model: resnet50, backend: cuda, precision: bf16, batch_size: 7, image_size: 64, warmup_steps: 3, steps: 11,
           display_every: 5, accumulate_steps: 2, seed: 9, threads: 4, env: {NCCL_DEBUG: INFO, N: 5}}
guest: {image: mirror, vcpus: 12, memory: 3GiB, pinning: numa, hugepages: true}
devices: {kind: vgpu, type: A100-20C, select: {vendor: 0x10DE, count: 3, address: [0000:17:00.0, "0001:b3:00.1"]}, spread: true, vgpu_scheduler: fixed_share,
          nics: {kind: vf, per_node: 2, select: {name: ConnectX}}, settings: {power_limit: 250.5W, graphics_clock: 1410MHz, ecc: on}}
cases:
  - name: mixed
    workload: {batch_size: 8}
    tenants:
      - {name: a, nodes: 2, gpus_per_node: 2, vgpu_type: nvidia-474}
      - {nodes: 1, gpus_per_node: 1, workload: {steps: 99, env: {N: 6}}}
  - {name: weak, scale: {nodes: [4, 1], gpus_per_node: 3}}
arms: [vm, bare_metal_shared, bare_metal]
probes: [peer_copy, gemm]
pairs: 4
reuse: case
oversubscribe: true
settle: 500ms
boot_timeout: 2m
trial_timeout: 3h
expect: {vm_vs_bare_metal: {margin: 0.03, alpha: 1%}}
)",
                                 "x.yaml");
  CHECK(s.description == "words: with colons");
  CHECK(s.guest.vcpus == 12);
  CHECK(s.guest.memory_bytes == 3ULL << 30);
  CHECK(s.guest.pinning == Pinning::numa);
  CHECK(s.guest.hugepages);
  CHECK(s.devices.kind == DeviceKind::vgpu);
  CHECK(s.devices.select.vendor == "0x10de");
  CHECK(s.devices.select.count == 3);
  CHECK(s.devices.select.addresses == std::vector<std::string>{"0000:17:00.0", "0001:b3:00.1"});
  CHECK(s.devices.vgpu_type == "A100-20C");
  CHECK(s.devices.spread);
  CHECK(s.devices.vgpu_scheduler == vmctl::VgpuScheduler::fixed_share);
  CHECK(s.devices.clique == vmctl::Clique::off);
  REQUIRE(s.devices.nics);
  CHECK(s.devices.nics->kind == NicKind::vf);
  CHECK(s.devices.nics->per_node == 2);
  CHECK(s.devices.nics->select.name == "ConnectX");
  CHECK(s.devices.settings.power_limit_watts == 250.5);
  CHECK(s.devices.settings.graphics_clock_mhz == 1410);
  CHECK(s.devices.settings.ecc == true);
  CHECK_FALSE(s.devices.settings.mig);
  CHECK(arm_names(s) == std::vector<std::string>{"vm", "bare_metal_shared", "bare_metal"});
  CHECK(s.probes == std::vector<std::string>{"peer_copy", "gemm"});
  CHECK(s.pairs == 4);
  CHECK(s.reuse == Reuse::experiment_case);
  CHECK(s.oversubscribe);
  CHECK(s.settle_ns == 500'000'000);
  CHECK(s.boot_timeout_ns == 120'000'000'000);
  CHECK(s.trial_timeout_ns == 3 * 3'600'000'000'000);
  REQUIRE(s.vm_vs_bare_metal);
  CHECK(s.vm_vs_bare_metal->margin == Approx(0.03));
  CHECK(s.vm_vs_bare_metal->alpha == Approx(0.01));

  REQUIRE(s.cases.size() == 3);
  const auto& a = s.cases[0].tenants.at(0);
  CHECK(s.cases[0].key == CaseKey());
  CHECK(a.name == "a");
  CHECK(a.nodes == 2);
  CHECK(a.gpus_per_node == 2);
  CHECK(a.ranks_per_node == 2);
  CHECK(a.workload.backend == Backend::cuda);
  CHECK(a.workload.precision == Precision::bf16);
  CHECK(a.workload.batch_size == 8);
  CHECK(a.workload.image_size == 64);
  CHECK(a.workload.warmup_steps == 3);
  CHECK(a.workload.steps == 11);
  CHECK(a.workload.display_every == 5);
  CHECK(a.workload.accumulate_steps == 2);
  CHECK(a.workload.seed == 9);
  CHECK(a.workload.threads == 4);
  CHECK(a.workload.environment == std::map<std::string, std::string>{{"N", "5"}, {"NCCL_DEBUG", "INFO"}});
  CHECK(a.vgpu_type == "nvidia-474");
  const auto& second = s.cases[0].tenants.at(1);
  CHECK(second.vgpu_type == "A100-20C");
  CHECK(second.name == "tenant-2");
  CHECK(second.workload.steps == 99);
  CHECK(second.workload.batch_size == 8);
  CHECK(second.workload.environment.at("N") == "6");
  CHECK(second.workload.environment.at("NCCL_DEBUG") == "INFO");
  CHECK(s.cases[1].name == "weak/4");
  CHECK(s.cases[1].key == CaseKey{"weak", 4, {}});
  CHECK(s.cases[1].tenants.at(0).nodes == 4);
  CHECK(s.cases[1].tenants.at(0).ranks_per_node == 3);
  CHECK(s.cases[1].tenants.at(0).workload.batch_size == 7);
  CHECK(s.cases[2].name == "weak/1");
}

TEST_CASE("cliques, and parents of mediated devices that are no PCI functions") {
  const auto devices = [](const std::string& text) {
    return decode_scenario(small_scenario("devices: " + text + "\n"), "x.yaml").devices;
  };
  CHECK(devices("{kind: passthrough, clique: auto}").clique == vmctl::Clique::auto_);
  CHECK(devices("{kind: passthrough, clique: all}").clique == vmctl::Clique::all);
  CHECK(devices("{kind: passthrough, clique: off}").clique == vmctl::Clique::off);
  CHECK(devices("{kind: passthrough}").vfio == vmctl::Vfio::container);
  CHECK(devices("{kind: passthrough, vfio: iommufd}").vfio == vmctl::Vfio::iommufd);
  CHECK(devices("{kind: vgpu, type: mtty-2, select: {address: [mtty]}}").select.addresses ==
        std::vector<std::string>{"mtty"});
  CHECK(devices("{kind: vf, select: {address: [0000:98:00.0]}}").kind == DeviceKind::vf);
}

TEST_CASE("how a guest's memory is encrypted") {
  const auto encryption = [](const std::string& word) {
    return decode_scenario(
               "name: e\nworkload: {backend: cpu}\nguest: {vcpus: 1, memory: 1GiB, memory_encryption: " +
                   word + "}\ncases: [{name: a, tenants: [{nodes: 1}]}]\narms: [vm]\n",
               "x.yaml")
        .guest.memory_encryption;
  };
  CHECK(encryption("none") == vmctl::MemoryEncryption::none);
  CHECK(encryption("bounce") == vmctl::MemoryEncryption::bounce);
  CHECK(encryption("sev-snp") == vmctl::MemoryEncryption::sev_snp);
  CHECK(encryption("tdx") == vmctl::MemoryEncryption::tdx);
}

TEST_CASE("what happens to devices between tenants") {
  const auto devices = [](const std::string& text) {
    return decode_scenario(small_scenario("devices: " + text + "\n"), "x.yaml").devices.between_tenants;
  };
  CHECK(devices("{kind: passthrough}") == vmctl::BetweenTenants::none);
  CHECK(devices("{kind: passthrough, between_tenants: erase}") == vmctl::BetweenTenants::erase);
  CHECK(devices("{kind: vf, select: {address: [0000:98:00.0]}, between_tenants: reset}") ==
        vmctl::BetweenTenants::reset);
  const auto refusal = [&](const std::string& text) {
    try {
      devices(text);
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("(decoded)");
  };
  CHECK_THAT(refusal("{kind: passthrough, between_tenants: wipe}"), Contains("none, reset, erase"));
  // A vGPU's memory is its vendor's driver's to clear.
  CHECK_THAT(refusal("{kind: vgpu, type: A100-20C, between_tenants: reset}"),
             Contains("between_tenants has no meaning with kind vgpu"));
}

TEST_CASE("an odd number of pairs warns, with one arm it does not") {
  const auto odd = decode_scenario(small_scenario("pairs: 3\n"), "x.yaml");
  REQUIRE(odd.warnings.size() == 1);
  CHECK_THAT(odd.warnings[0], Contains("pairs: 3 is odd"));
  CHECK(decode_scenario(small_scenario("pairs: 4\n"), "x.yaml").warnings.empty());
  CHECK(decode_scenario(small_scenario("pairs: 1\n"), "x.yaml").warnings.empty());
  CHECK(decode_scenario(small_scenario("pairs: 3\narms: [vm]\n"), "x.yaml").warnings.empty());
  const auto few =
      decode_scenario(small_scenario("pairs: 2\nexpect: {vm_vs_bare_metal: {margin: 2%}}\n"), "x.yaml");
  REQUIRE(few.warnings.size() == 1);
  CHECK_THAT(few.warnings[0], Contains("2 pairs of one run give no verdict"));
}

TEST_CASE("names") {
  const auto decodes = [](const std::string& name) {
    try {
      decode_scenario("name: " + name + small_scenario().substr(std::string("name: small").size()), "x.yaml");
      return true;
    } catch (const Error&) { return false; }
  };
  for (const char* name : {"a", "0", "a.b_c-9", "x..y"}) { CHECK(decodes(name)); }
  CHECK(decodes(std::string(64, 'a')));
  for (const char* name : {"-a", ".a", "_a", "a/b", "A", "ä", "a\\b", "'a b'", "\"a\\n\""}) {
    CHECK_FALSE(decodes(name));
  }
}

TEST_CASE("a real number of the workload has its range, and reaches the trainer") {
  const auto with = [](const std::string& rate) {
    auto text = small_scenario();
    return text.replace(text.find("resnet50}"), 8, "resnet50, learning_rate: " + rate);
  };
  const auto scenario = decode_scenario(with("0.002"), "x.yaml");
  CHECK(scenario.cases[0].tenants[0].workload.learning_rate == 0.002);
  CHECK(refusal(with("10.5")) ==
        "x.yaml:2:44: learning_rate: '10.5' is not allowed (allowed: a number from 0 to 10)");
  CHECK(refusal(with("fast")) ==
        "x.yaml:2:44: learning_rate: 'fast' is not allowed (allowed: a number from 0 to 10)");
  CHECK(refusal(with("\"0.1\"")) ==
        "x.yaml:2:44: learning_rate must be a number from 0 to 10 (remove the quotes)");
}
