#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "tests/support/catch.h"

/// The executable from outside, as the harness and mpirun see it.
using namespace virtrain;
using nlohmann::json;

namespace {

const std::string trainer = VIRTRAIN_BINARY_DIR "/virtrain-resnet50-cpu";
const std::vector<std::string> small{"--image_size=32", "--batch_size=4", "--num_warmup_batches=1"};

struct Outcome {
  CommandResult result;
  std::vector<json> records;

  std::vector<json> all(const std::string& record) const {
    std::vector<json> found;
    for (const json& entry : records) {
      if (entry["record"] == record) { found.push_back(entry); }
    }
    return found;
  }
  json one(const std::string& record, int rank = 0) const {
    for (const json& entry : records) {
      if (entry["record"] == record && entry["rank"] == rank) { return entry; }
    }
    FAIL("no record " << record << " of rank " << rank << " in\n" << result.out << result.err);
    return {};
  }
};

/// With one thread a rank: beside other tests, threads that wait for each other take many times as long.
Outcome run(int ranks, std::vector<std::string> arguments, const std::string& input, int threads = 1) {
  std::vector<std::string> command;
  if (ranks > 1) {
    command = {"mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-np", std::to_string(ranks)};
  }
  command.push_back(trainer);
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.push_back("--num_threads=" + std::to_string(threads));
  CommandOptions options;
  options.deadline = std::chrono::seconds(120);
  options.input = input;
  options.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  Outcome outcome{run_command(command, options), {}};
  for (const std::string& line : split(outcome.result.out, '\n')) {
    if (line.empty() || line.front() != '{') { continue; }
    CHECK(line.size() < 4096);
    outcome.records.push_back(json::parse(line));
  }
  return outcome;
}

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.begin(), small.begin(), small.end());
  return more;
}

const std::string endless = trainer + " " + join(with({"--num_batches=1000000", "--num_threads=1"}), " ");

/// Two ranks, each as its shell's words start it. Told apart by the shell, because Open MPI 5 crashes on
/// "mpirun first : second" (open-mpi/ompi issue 13303).
CommandResult run_pair(const std::string& first, const std::string& second) {
  const std::string each = "if [ $OMPI_COMM_WORLD_RANK = 0 ]; then " + first + "; else " + second + "; fi";
  return run_command({"mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-np", "2", "sh", "-c", each},
                     {.deadline = std::chrono::seconds(120),
                      .input = "go\n",
                      .environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}});
}

}  // namespace

TEST_CASE("a run says hello, ready, its samples and its result") {
  const Outcome outcome = run(1, with({"--num_batches=5", "--display_every=2"}), "go\n", 2);
  REQUIRE(outcome.result.exit_status == 0);
  const json hello = outcome.one("hello");
  CHECK(hello["size"] == 1);
  CHECK(hello["mpi"].is_null());
  CHECK(hello["configuration"]["batch_size"] == 4);
  CHECK_FALSE(hello["isa"].get<std::string>().empty());
  CHECK_FALSE(hello["cpuset"].get<std::string>().empty());
  const json ready = outcome.one("ready");
  CHECK(ready["parameters"] == 25'557'032);
  CHECK(ready["setup_seconds"] > 0);
  CHECK(outcome.all("warmup").size() == 1);

  const std::vector<json> samples = outcome.all("sample");
  REQUIRE(samples.size() == 3);
  std::int64_t last_ns = ready["t_ns"];
  int images = 0;
  for (const json& sample : samples) {
    CHECK(sample["t_ns"] > last_ns);
    CHECK(sample["seconds"] > 0);
    last_ns = sample["t_ns"];
    images += sample["images"].get<int>();
  }
  CHECK(samples.back()["step"] == 5);
  CHECK(images == 20);

  const json result = outcome.one("result");
  CHECK(result["scope"] == "rank");
  CHECK(result["steps"] == 5);
  CHECK(result["images"] == 20);
  CHECK(result["stopped"] == false);
  CHECK(result["steady_state"].is_null());
  CHECK(result["images_per_second"].get<double>() == Approx(20 / result["seconds"].get<double>()));
  CHECK(result["step_seconds_p50"] <= result["step_seconds_p99"]);
  CHECK(result["step_seconds_p90"] <= result["step_seconds_p95"]);
  CHECK(result["step_seconds_p95"] <= result["step_seconds_p99"]);
  CHECK(result["parameters_hash"] != ready["parameters_hash"]);
  CHECK(result["peak_rss_bytes"] > 300'000'000);
  CHECK(outcome.all("result").size() == 2);
  CHECK(outcome.all("result").back()["scope"] == "tenant");
}

TEST_CASE("the same flags give the same parameters, another seed others") {
  const std::vector<std::string> flags = with({"--num_batches=2"});
  const Outcome first = run(1, flags, "go\n");
  const Outcome second = run(1, flags, "go\n");
  CHECK(first.one("result")["parameters_hash"] == second.one("result")["parameters_hash"]);
  // Later steps are told one by one and count for nothing.
  const Outcome longer = run(1, with({"--num_batches=2", "--num_later_batches=3"}), "go\n");
  CHECK(longer.all("later").size() == 3);
  CHECK(longer.all("later").back()["step"] == 3);
  CHECK(longer.all("sample").size() == first.all("sample").size());
  CHECK(longer.one("result")["steps"] == 2);
  CHECK(longer.one("result")["parameters_hash"] == first.one("result")["parameters_hash"]);
  const Outcome other = run(1, with({"--num_batches=1", "--seed=2"}), "go\n");
  CHECK(other.one("ready")["parameters_hash"] != first.one("ready")["parameters_hash"]);
}

TEST_CASE("with one fixed batch the loss falls") {
  std::vector<std::string> precisions{"fp32"};
  if (run(1, {"--precision=fp32"}, "").one("hello")["isa"].get<std::string>().find("bf16") !=
      std::string::npos) {
    precisions.emplace_back("bf16");
  }
  for (const std::string& precision : precisions) {
    CAPTURE(precision);
    const Outcome outcome = run(1,
                                {"--image_size=32", "--batch_size=16", "--num_batches=20",
                                 "--num_warmup_batches=0", "--precision=" + precision},
                                "go\n");
    const json result = outcome.one("result");
    CHECK(result["loss_first"].get<double>() == Approx(7.0).margin(1.0));
    CHECK(result["loss_last"].get<double>() < 0.5 * result["loss_first"].get<double>());
  }
}

TEST_CASE("two ranks on two shards equal one rank that accumulates them, bit for bit") {
  const Outcome two = run(2, with({"--num_batches=3"}), "go\n");
  REQUIRE(two.result.exit_status == 0);
  const Outcome one = run(1, with({"--num_batches=3", "--accumulate_steps=2"}), "go\n");
  REQUIRE(one.result.exit_status == 0);
  const json first = two.one("result", 0);
  const json second = two.one("result", 1);
  CHECK(first["parameters_hash"] == second["parameters_hash"]);
  CHECK(first["parameters_hash"] == one.one("result")["parameters_hash"]);
  CHECK(first["loss_last"] != second["loss_last"]);
  CHECK(first["bytes_allreduced_per_step"] >= 25'557'032 * 4);
  CHECK(one.one("result")["images"] == first["images"].get<int>() * 2);
  const json hello = two.one("hello", 1);
  CHECK(hello["size"] == 2);
  CHECK(hello["local_size"] == 2);
  CHECK_THAT(hello["mpi"].get<std::string>(), virtrain::test::StartsWith("Open MPI "));

  const json tenant = two.all("result").back();
  double sum = 0;
  for (const json& result : two.all("result")) {
    if (result["scope"] == "rank") { sum += result["images_per_second"].get<double>(); }
    if (result["scope"] == "tenant") { CHECK(result["ranks"] == 2); }
  }
  for (const json& result : two.all("result")) {
    if (result["scope"] == "tenant") { CHECK(result["images_per_second"].get<double>() == Approx(sum)); }
  }
}

TEST_CASE("three ranks hold equal parameters, with small buckets too") {
  const Outcome outcome = run(3, with({"--num_batches=2", "--bucket_mib=1"}), "go\n");
  REQUIRE(outcome.result.exit_status == 0);
  CHECK(outcome.one("result", 0)["parameters_hash"] == outcome.one("result", 1)["parameters_hash"]);
  CHECK(outcome.one("result", 0)["parameters_hash"] == outcome.one("result", 2)["parameters_hash"]);
}

TEST_CASE("stop ends all ranks after the current step") {
  for (const int ranks : {1, 2}) {
    const Outcome outcome =
        run(ranks, {"--image_size=32", "--batch_size=4", "--num_batches=1000", "--num_warmup_batches=0"},
            "go\nstop\n");
    CAPTURE(ranks, outcome.result.err);
    REQUIRE(outcome.result.exit_status == 0);
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(outcome.one("result", rank)["stopped"] == true);
      CHECK(outcome.one("result", rank)["steps"] < 1000);
    }
  }
}

TEST_CASE("input that ends or speaks before 'go' is a usage error") {
  for (const char* input : {"", "start\n"}) {
    const Outcome outcome = run(1, small, input);
    CHECK(outcome.result.exit_status == 2);
    CHECK_THAT(outcome.one("error")["message"].get<std::string>(), virtrain::test::Contains("go"));
    CHECK(outcome.all("sample").empty());
  }
}

TEST_CASE("flags that cannot be are refused with an error record and exit 2") {
  const Outcome outcome = run(1, {"--use_fp16"}, "go\n");
  CHECK(outcome.result.exit_status == 2);
  CHECK_THAT(outcome.one("error")["message"].get<std::string>(),
             virtrain::test::Contains("--precision fp32"));
  CHECK_THAT(outcome.result.err, virtrain::test::Contains("--use_fp16"));
  CHECK(run(1, {"--bogus"}, "go\n").result.exit_status == 2);
  CHECK(run(1, {"--help"}, "").result.exit_status == 0);
}

TEST_CASE("a diverging run is an error, not a result") {
  for (const int ranks : {1, 2}) {
    const Outcome outcome = run(ranks, with({"--num_batches=30", "--learning_rate=10"}), "go\n");
    CAPTURE(ranks);
    CHECK(outcome.result.exit_status != 0);
    CHECK_FALSE(outcome.all("error").empty());
    CHECK(outcome.all("result").empty());
  }
}

TEST_CASE("a rank whose peer stands still ends the job with an error") {
  const std::string command = endless + " --stall_seconds=3";
  const CommandResult result = run_pair("exec " + command,
                                        "(sleep 3; kill -STOP $$) & exec " + command + "0");  // patient
  CHECK(result.exit_status == 1);
  CHECK_THAT(result.out,
             virtrain::test::Contains("\"record\":\"error\""));  // of a step, or of a slow setting up
  CHECK_THAT(result.err, virtrain::test::Contains("--stall_seconds"));
}

TEST_CASE("a rank whose peer is killed says so and ends") {
  const std::string quiet = endless + " --display_every=1000000";
  const auto begun = std::chrono::steady_clock::now();
  const CommandResult result =
      run_pair("exec " + quiet, "(sleep 8; kill -KILL $$) & exec " + quiet);  // in the midst of its steps
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(30));
  CHECK(result.exit_status != 0);
  CHECK_THAT(result.out, virtrain::test::Contains("\"record\":\"warmup\""));
  json error;
  for (const std::string& line : split(result.out, '\n')) {
    if (line.find("\"record\":\"error\"") != std::string::npos) { error = json::parse(line); }
  }
  REQUIRE(error.is_object());
  CHECK(error["rank"] == 0);
  CHECK_THAT(error["message"].get<std::string>(), virtrain::test::Contains("another rank may be gone"));
  CHECK_THAT(result.err, virtrain::test::Contains("virtrain-resnet50-cpu: run: ended by SIGTERM"));
}

TEST_CASE("a lone run that is ended by SIGTERM says so, with its exit status") {
  const CommandResult result =
      run_command({"sh", "-c", "(sleep 3; kill $$) & exec " + endless},
                  {.deadline = std::chrono::seconds(120), .input = "go\n", .environment = {}});
  CHECK(result.exit_status == 143);
  CHECK_THAT(result.out, virtrain::test::Contains("\"record\":\"error\""));
}

TEST_CASE("tf_cnn_benchmarks' table needs no 'go'") {
  const Outcome outcome =
      run(1, with({"--num_batches=4", "--display_every=2", "--format=tf_cnn_benchmarks"}), "");
  REQUIRE(outcome.result.exit_status == 0);
  const std::vector<std::string> lines = split(outcome.result.out, '\n');
  REQUIRE(lines.size() == 8);  // header, steps 1, 2, 4, rule, total, rule, and the end of the last line
  CHECK(lines[0] == "Step\tImg/sec\ttotal_loss");
  CHECK_THAT(lines[1], virtrain::test::Matches(
                           "1\timages/sec: [0-9.]+ \\+/- 0\\.0 \\(jitter = 0\\.0\\)\t[0-9]+\\.[0-9]{3}"));
  CHECK_THAT(lines[3], virtrain::test::StartsWith("4\timages/sec: "));
  CHECK(lines[4] == std::string(64, '-'));
  CHECK_THAT(lines[5], virtrain::test::Matches("total images/sec: [0-9]+\\.[0-9]{2}"));
  CHECK(lines[6] == std::string(64, '-'));
}

TEST_CASE("a trace has what each rank did in each counted step") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("virtrain-trace-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const Outcome outcome = run(2,
                              with({"--num_batches=2", "--accumulate_steps=2", "--bucket_mib=40",
                                    "--trace=" + (folder / "t.json").string()}),
                              "go\n");
  REQUIRE(outcome.result.exit_status == 0);
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    const json trace = json::parse(read_file(folder / ("t." + std::to_string(rank) + ".json")).value());
    std::map<std::string, int> seen;
    double exposed_us = 0;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] != "X") { continue; }
      CHECK(event["pid"] == rank);
      CHECK(event["dur"] >= 0);
      if (event["name"] == "exposed") {
        exposed_us += event["dur"].get<double>();
        continue;
      }
      ++seen[event["name"]];
    }
    // 102 MB of gradients in buckets of at least 42 MB, what is left but for the last few, and these
    CHECK(seen == std::map<std::string, int>{{"forward", 4},
                                             {"backward", 4},
                                             {"update", 2},
                                             {"all-reduce 0", 2},
                                             {"all-reduce 1", 2},
                                             {"all-reduce 2", 2},
                                             {"all-reduce 3", 2}});
    const json& sums = trace["otherData"];
    CHECK(sums["communication_ms"] > 0);
    CHECK(sums["exposed_communication_ms"] <= sums["communication_ms"]);
    CHECK(sums["exposed_communication_ms"].get<double>() == Approx(exposed_us / 1000));
  }
  std::filesystem::remove_all(folder);
  const Outcome refused = run(1, with({"--trace=/nonexistent/t.json"}), "go\n");
  CHECK(refused.result.exit_status == 1);
  CHECK_THAT(refused.one("error")["operation"].get<std::string>(),
             virtrain::test::Contains("/nonexistent/t.json"));
  CHECK(refused.all("warmup").empty());
}

TEST_CASE("a steady state that is not reached in time is said, and ranks agree when to begin") {
  const Outcome outcome = run(2, with({"--num_batches=1", "--steady_seconds=1"}), "go\n");
  REQUIRE(outcome.result.exit_status == 0);
  for (int rank = 0; rank < 2; ++rank) {
    const json state = outcome.one("result", rank)["steady_state"];
    CHECK(state["level"] == false);
    CHECK(state["seconds"] >= 1);
    CHECK(state["bound_seconds"] == 1);
    CHECK_FALSE(state["not_level"].empty());
  }
  CHECK(outcome.one("result", 0)["warmup_steps"] > 1);
  CHECK(outcome.one("result", 0)["warmup_steps"] == outcome.one("result", 1)["warmup_steps"]);
}

/// Where a dump goes, and a run of so many ranks that is to write it there.
struct Dumping {
  explicit Dumping(int ranks)
      : path(std::filesystem::temp_directory_path() / ("virtrain-dump-" + std::to_string(getpid()))),
        outcome(run(ranks,
                    {"--image_size=32", "--batch_size=2", "--num_batches=1", "--num_warmup_batches=0",
                     "--dump=" + path.string()},
                    "go\n")) {}
  ~Dumping() { std::filesystem::remove(path); }

  std::filesystem::path path;
  Outcome outcome;
};

TEST_CASE("a dump of several ranks is refused: it would hold all ranks' gradients and one's batch") {
  const Dumping dumping(2);
  CHECK(dumping.outcome.result.exit_status == 2);
  CHECK_THAT(dumping.outcome.all("error").at(0)["message"].get<std::string>(),
             virtrain::test::Contains("--dump") && virtrain::test::Contains("one rank"));
  CHECK_FALSE(std::filesystem::exists(dumping.path));
}

TEST_CASE("a dump has what a reference needs") {
  const Dumping dumping(1);
  REQUIRE(dumping.outcome.result.exit_status == 0);
  const std::string file = read_file(dumping.path, std::size_t{1} << 30).value();
  std::uint64_t length = 0;
  file.copy(reinterpret_cast<char*>(&length), 8);
  const json header = json::parse(file.substr(8, length));
  CHECK(header.size() == 2 * (161 + 3 * 53) + 161 + 3);
  CHECK(header["input"]["shape"] == std::vector<int>{2, 3, 32, 32});
  CHECK(header["labels"]["dtype"] == "I64");
  CHECK(header["grad.layer4.2.conv3.weight"]["shape"] == std::vector<int>{2048, 512, 1, 1});
  for (const char* name : {"loss", "bn1.running_var", "after.bn1.running_mean", "bn1.num_batches_tracked",
                           "after.layer1.0.downsample.0.weight"}) {
    CHECK(header.contains(name));
  }
}
