#include "common/model/job.h"

#include <filesystem>
#include <fstream>

#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "harness/scenario/line_pattern.h"
#include "harness/scenario/payload_image.h"
#include "harness/scenario/placeholders.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using test::Contains;
using Strings = std::vector<std::string>;

constexpr const char* job_scenario = R"(name: own
workload:
  command: [python3, train.py, "--batch={batch_size}", "--ranks={ranks}", "{{steps}}", "{}", -v, -v]
  batch_size: 64
  launch: mpirun
  throughput: {pattern: 'tok/s: (?P<value>[0-9,.]+)', example: 'tok/s: 1,234.5', unit: tokens/s, skip: 2}
guest: {vcpus: 2, memory: 512MiB}
cases:
  - {name: two, tenants: [{nodes: 2, ranks_per_node: 2}]}
arms: [bare_metal]
pairs: 1
)";

}  // namespace

TEST_CASE("placeholders are names in braces, and two braces are one") {
  CHECK(placeholders_in("--batch={batch_size} {{no}} {} {a-b} {x") == Strings{"batch_size"});
  CHECK(filled("{a}-{b}-{{a}}-{a b}", {{"a", "1"}}) == "1-{b}-{a}-{a b}");
  CHECK(filled("{{{a}}}", {{"a", "1"}}) == "{1}");
  // Else the second one would lose a brace, and nobody would be told.
  CHECK_FALSE(mixes_braces(R"({"a": {"b": 1} })"));
  CHECK(mixes_braces(R"({"a": {"b": 1}})"));
  CHECK_FALSE(mixes_braces(R"({{"a": {{"b": {a}}}}})"));
  std::string text = job_scenario;
  text.replace(text.find("-v, -v"), 6, R"('{"a":{"b":1}}')");
  CHECK_THROWS_WITH(
      decode_scenario(text, "own.yaml"),
      Contains(R"(own.yaml:3:)") && Contains(R"('{"a":{"b":1}}' has single braces and pairs of them)"));
}

TEST_CASE(
    "a command is planned with the values of its placeholders, and without the settings of the trainer") {
  const auto scenario = decode_scenario(job_scenario, "own.yaml");
  const auto& workload = scenario.cases.at(0).tenants.at(0).workload;
  REQUIRE(workload.job);
  CHECK(workload.job->throughput.scope == FigureScope::job);
  const auto plan = make_plan(scenario, host(1, 8), false);
  const auto& tenant = plan.placements.at(0).tenants.at(0);
  CHECK(job_words(tenant) ==
        Strings{"python3", "train.py", "--batch=64", "--ranks=4", "{steps}", "{}", "-v", "-v"});
  const auto json = to_json(workload);
  CHECK(json.at("batch_size") == 64);
  CHECK(json.at("launch") == "mpirun");
  CHECK(json.at("throughput").at("unit") == "tokens/s");
  for (const char* key : {"model", "image_size", "steps", "backend", "precision"}) {
    INFO(key);
    CHECK_FALSE(json.contains(key));
  }
}

TEST_CASE("a tenant's own words take the place of the scenario's, and a sweep varies what they name") {
  std::string text = job_scenario;
  text += "sweep: {workload.batch_size: [16, 32]}\n";
  const auto swept = decode_scenario(text, "own.yaml");
  REQUIRE(swept.cases.size() == 2);
  CHECK(swept.cases[1].tenants[0].workload.batch_size == 32);
}

TEST_CASE(
    "a pattern finds figures, with commas and with the work until then, in time that grows as the line "
    "does") {
  const LinePattern pattern(R"(step (?P<work>\d+) tok/s: (?P<value>[\d.,]+))");
  REQUIRE(pattern.refusal().empty());
  const auto figure = pattern.read("[rank0] step 10 tok/s: 1,234.5 loss 2")->figure;
  REQUIRE(figure);
  CHECK(figure->value == 1234.5);
  CHECK(figure->work == 10.0);
  CHECK_FALSE(pattern.read("tok/s: 5"));
  CHECK(pattern.read("step 1 tok/s: 0")->refusal == "'0', which is not a number above zero");
  CHECK(LinePattern("(?P<value>.*)").read("nan")->refusal == "'nan', which is not a number above zero");
  // Backtracking would take longer than the universe has been there.
  const LinePattern slow("(a*)*b(?P<value>[0-9]+)");
  CHECK_FALSE(slow.read(std::string(4000, 'a')));
  CHECK_THAT(LinePattern("(((((((((((((((((?P<value>x)))))))))))))))))").refusal(),
             Contains("more than 16 groups"));
  CHECK_FALSE(LinePattern("((a{1,1000}){1,1000}){1,1000}(?P<value>x)").refusal().empty());
}

TEST_CASE("a pattern that takes a part of a number is refused, for its figure would be another") {
  const auto value = [](const char* pattern, const char* line) -> double {
    const auto reading = LinePattern(pattern).read(line);
    REQUIRE(reading);
    INFO(line << reading->refusal);
    CHECK(reading->refusal.empty() == reading->figure.has_value());
    return reading->figure ? reading->figure->value : 0;
  };
  const char* ends = R"(tok/s: (?P<value>[\d.]+))";
  for (const char* line : {"tok/s: 1,234.5", "tok/s: 1,234,567 x", "tok/s: 1.5e+06", "tok/s: 2e3",
                           "tok/s: 12,5", "tok/s: 1.234,5"}) {
    CHECK(value(ends, line) == 0);
  }
  CHECK(value(R"(tok/s: (?P<value>\d+))", "tok/s: 1234.5") == 0);
  CHECK(value(R"(tok/s: (?P<value>\d{2}))", "tok/s: 1234") == 0);
  const char* begins = R"((?P<value>[\d.]+) tok/s)";
  for (const char* line : {"1,234.5 tok/s", "1e+06 tok/s", "x 1e3 tok/s", "3,1234.5 tok/s"}) {
    CHECK(value(begins, line) == 0);
  }
  CHECK(value(R"(: (?P<value>[\d,]+))", "tok/s: 1,5") == 0);
  // What only looks like it.
  CHECK(value(ends, "tok/s: 1234.5, 2") == 1234.5);
  CHECK(value(ends, "tok/s: 12. Then") == 12);
  CHECK(value(ends, "tok/s: 12 each") == 12);
  CHECK(value(ends, "tok/s: 12each") == 12);
  CHECK(value(begins, "step 3, 1234.5 tok/s") == 1234.5);
  CHECK(value(begins, "the 12.5 tok/s") == 12.5);
  CHECK(value(R"(^\d+,(?P<value>\d+),)", "3,120,555") == 120);

  std::string text = job_scenario;
  const std::string was = "[0-9,.]+", is = "[0-9.]+";
  text.replace(text.find(was), was.size(), is);
  CHECK_THROWS_WITH(
      decode_scenario(text, "own.yaml"),
      Contains("own.yaml:6:") && Contains("finds '1', which is a part of a number in 'tok/s: 1,234.5'"));
}

TEST_CASE("a payload is a squashfs with the command's program, for this machine") {
  if (on_path("mksquashfs").empty() || on_path("unsquashfs").empty()) {
    test::skip("squashfs-tools is not installed");
  }
  const TemporaryFolder folder;
  const auto root = folder.path / "root", image = folder.path / "env.sqfs";
  std::filesystem::create_directories(root / "usr/bin");
  std::filesystem::create_symlink("usr/bin", root / "bin");
  std::filesystem::copy("/bin/true", root / "usr/bin/python3.11");
  std::filesystem::create_symlink("python3.11", root / "usr/bin/python3");
  std::ofstream(root / "usr/bin/script") << "#!/bin/nowhere\n";
  std::ofstream(root / "usr/bin/data") << "text\n";
  auto elf = read_file("/bin/true").value();
  elf[18] = static_cast<char>(243);
  elf[19] = 0;
  std::ofstream(root / "usr/bin/foreign") << elf;
  std::ofstream(root / "usr/bin/in-env") << "#!/usr/bin/env python9\n";
  std::filesystem::copy("/bin/true", root / "usr/bin/env");
  std::filesystem::copy("/bin/true", root / "usr/bin/unmarked");
  for (const char* name : {"script", "data", "foreign", "in-env"}) {
    std::filesystem::permissions(root / "usr/bin" / name, std::filesystem::perms{0755});
  }
  std::filesystem::permissions(root / "usr/bin/unmarked", std::filesystem::perms{0644});
  const auto pack = [&](const std::filesystem::path& file) {
    run_checked({"mksquashfs", root.string(), file.string(), "-quiet", "-no-progress"});
  };
  const auto bare = folder.path / "bare.sqfs", cut = folder.path / "cut.sqfs";
  pack(bare);
  CHECK_THAT(payload_refusal(bare, "python3"),
             Contains("has /usr/bin/python3.11 without /lib64/ld-linux-x86-64.so.2, which starts it"));
  std::filesystem::create_directories(root / "lib64");
  std::filesystem::copy(std::filesystem::canonical("/lib64/ld-linux-x86-64.so.2"),
                        root / "lib64/ld-linux-x86-64.so.2");
  pack(image);
  std::ofstream(cut) << read_file(image).value().substr(0, std::filesystem::file_size(image) / 2);
  CHECK_THAT(payload_refusal(cut, "python3"), Contains("is damaged, or was not copied whole"));
  CHECK_THAT(payload_refusal(image, "in-env"), Contains("has no python9"));
  CHECK_THAT(payload_refusal(image, "unmarked"), Contains("/usr/bin/unmarked, which is not executable"));

  CHECK(payload_refusal(image, "python3").empty());
  CHECK(payload_refusal(image, "/bin/python3").empty());
  CHECK_THAT(payload_refusal(image, "python4"),
             Contains("has no python4 (looked for: /usr/local/sbin/python4"));
  CHECK_THAT(payload_refusal(image, "script"), Contains("has no /bin/nowhere"));
  CHECK_THAT(payload_refusal(image, "data"), Contains("which is not a program"));
  CHECK_THAT(payload_refusal(image, "foreign"), Contains("for riscv, and this build is for"));
  CHECK_THAT(payload_refusal(image, "./python3"), Contains("neither absolute nor a plain name"));
  CHECK_THAT(payload_refusal(folder.path / "no.sqfs", "python3"), Contains("cannot be read: No such file"));
  CHECK_THAT(payload_refusal(root / "usr/bin/data", "python3"), Contains("is not a squashfs image"));

  std::string text = job_scenario;
  text.replace(text.find("  launch"), 0, "  payload: env.sqfs\n");
  const auto file = (folder.path / "own.yaml").string();
  CHECK(decode_scenario(text, file).cases.at(0).tenants.at(0).workload.job->payload == image);
  text.replace(text.find("[bare_metal]"), 12, "[vm]");
  CHECK(decode_scenario(text, file).arms.at(0).cases.at(0).tenants.at(0).workload.job->payload == image);
}

}  // namespace virtrain::harness
