#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/files/reading.h"
#include "common/text/text.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

// The executable from outside: without a driver it says what is missing; with a GPU it trains. Started by a
// shell, so that this test is also built where there is nothing but workloads/ (scripts/gpu-check).
using namespace virtrain;
using nlohmann::json;

namespace {

const std::string trainer = VIRTRAIN_BINARY_DIR "/virtrain-resnet50-cuda";

struct Outcome {
  int exit_status = -1;
  std::string out, err;
  std::vector<json> records;
  json one(const std::string& record) const {
    for (const json& entry : records) {
      if (entry["record"] == record) { return entry; }
    }
    FAIL("no record " << record << " in\n" << out << err);
    return {};
  }
};

Outcome run(const std::vector<std::string>& arguments, const std::string& environment = "") {
  const TemporaryFolder folder;
  const std::string out = (folder.path / "out").string(), err = (folder.path / "err").string();
  // In our process group: whoever ends us ends it too, and the GPU is free again.
  std::string command = "echo go | " + environment + " timeout --foreground 280 '" + trainer + "'";
  for (const std::string& argument : arguments) { command += " '" + argument + "'"; }
  const int status = std::system((command + " >'" + out + "' 2>'" + err + "'").c_str());
  Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                  read_file(out).value_or(""),
                  read_file(err).value_or(""),
                  {}};
  for (const std::string& line : split(outcome.out, '\n')) {
    if (!line.empty() && line.front() == '{') { outcome.records.push_back(json::parse(line)); }
  }
  return outcome;
}

bool has_driver() {
  return std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg");
}

void require_gpu() {
  if (!has_driver()) { test::skip("no GPU: there is no /dev/nvidiactl"); }
}

}  // namespace

TEST_CASE("without a driver the trainer says so at once, in one record and nothing else, and exits 4") {
  if (has_driver()) { test::skip("a driver is here"); }
  const Outcome outcome = run({"--batch_size=8"});
  CHECK(outcome.exit_status == 4);
  REQUIRE(outcome.records.size() == 1);
  CHECK(split(outcome.out, '\n').size() == 2);  // the record and the end of its line
  const json error = outcome.one("error");
  CHECK(error["operation"] == "look for GPUs");
  CHECK_THAT(error["message"].get<std::string>(), virtrain::test::StartsWith("no NVIDIA driver here"));
  CHECK_THAT(outcome.err, virtrain::test::Contains("driver"));
}

TEST_CASE("flags are checked and help is given without a GPU") {
  const Outcome help = run({"--help"});
  CHECK(help.exit_status == 0);
  CHECK_THAT(help.out, virtrain::test::Contains("--bucket_mib"));
  for (const char* flag : {"--bogus", "--batch_size=0", "--precision=int8"}) {
    const Outcome outcome = run({flag});
    CAPTURE(flag);
    CHECK(outcome.exit_status == 2);
    CHECK_THAT(outcome.one("error")["operation"].get<std::string>(), virtrain::test::Equals("parse flags"));
  }
}

TEST_CASE("where every GPU is hidden the trainer ends with an error") {
  const Outcome outcome = run({"--batch_size=8"}, "CUDA_VISIBLE_DEVICES=-1");
  CHECK(outcome.exit_status == 4);
  CHECK(outcome.records.size() == 1);
}

TEST_CASE("on a GPU the loss falls in each precision") {
  require_gpu();
  for (const char* precision : {"fp32", "tf32", "bf16", "fp16"}) {
    CAPTURE(precision);
    const Outcome outcome =
        run({"--image_size=64", "--batch_size=16", "--num_batches=30", "--num_warmup_batches=0",
             "--steady_seconds=0", "--fusion=highest", std::string("--precision=") + precision});
    if (outcome.exit_status == 4 && std::string(precision) != "fp32") {
      CHECK_THAT(outcome.one("error")["message"].get<std::string>(),
                 virtrain::test::Contains("has no arithmetic for"));
      continue;
    }
    REQUIRE(outcome.exit_status == 0);
    const json result = outcome.one("result");
    CHECK(result["loss_last"].get<double>() < 0.5 * result["loss_first"].get<double>());
    CHECK(result["parameters_hash"] != outcome.one("ready")["parameters_hash"]);
  }
}

TEST_CASE("on a GPU the same run gives the same parameters") {
  require_gpu();
  const std::string fusion = GENERATE("addition", "highest");
  const std::vector<std::string> flags{"--image_size=64",    "--batch_size=8",     "--num_batches=3",
                                       "--steady_seconds=0", "--fusion=" + fusion, "--precision=fp16"};
  const json ready = run(flags).one("ready");  // chooses the engines
  const bool same =
      run(flags).one("result")["parameters_hash"] == run(flags).one("result")["parameters_hash"];
  CAPTURE(ready.dump());
  CHECK(ready["repeatable"].get<bool>() == (ready["fusion"] == "none" || ready["fusion"] == "addition"));
  if (ready["repeatable"].get<bool>()) { CHECK(same); }
}
