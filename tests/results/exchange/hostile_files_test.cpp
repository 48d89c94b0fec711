// What odd and hostile files may do: be refused in short words with their name. Rows of what an adversary
// found.
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "results/exchange/bundle/bundle.h"
#include "results/exchange/exchange.h"
#include "results/exchange/exporters/exporters.h"
#include "tests/results/exchange/import_support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

const std::string trial_line =
    R"({"record":"trial","experiment":"e","scenario":"s","case":"c","arm":"vm","pair":1,"nodes":1,"gpus_per_node":1,"images_per_second":9999})";

std::string trial_with(const std::string& key, const std::string& value) {
  auto record = nlohmann::json::parse(trial_line);
  record[key] = value;
  return record.dump();
}

}  // namespace

TEST_CASE("row 8: import does not crash: sixty thousand digits of a second, a key of sixty thousand bytes") {
  const std::string digits(60'000, '5');
  CHECK_THAT(refusal_of("a.jsonl", trial_with("started_at", "2026-11-20T08:00:00." + digits + "Z")),
             StartsWith("a.jsonl:1: ") && Contains("must be a time"));
  const auto settings = of_trials;
  CHECK_THAT(
      refusal_of("r.jsonl", R"({"node":"n","nccl-bw/)" + digits + R"(/allreduce_1_busbw":1})", settings),
      StartsWith("r.jsonl:1: "));
  CHECK_THAT(
      refusal_of("r.jsonl",
                 R"({"node":"n","m/)" + std::string(60'000, 'x') + R"(resnet50/fp16_train_throughput:0":1})",
                 {.experiment = "e", .arm = "vm"}),
      StartsWith("r.jsonl:1: ") && Contains("case has 60"));
  CHECK_THAT(
      refusal_of("r.jsonl", R"({"node":"n","gemm-flops/)" + std::string(60'000, 'a') + R"(_tc_flops":"x"})",
                 settings),
      StartsWith("r.jsonl:1: "));
  CHECK_THAT(refusal_of("a.jsonl", trial_with("case", std::string(60'000, 'c'))),
             Contains("allowed: at most 1000"));
}

TEST_CASE("row 8: times are ISO 8601 with a zone, to the nanosecond, and kept in UTC") {
  const std::pair<const char*, const char*> times[] = {
      {"2022-05-01T00:00:00Z", "2022-05-01T00:00:00Z"},
      {"2022-12-31T23:59:60Z", "2022-12-31T23:59:60Z"},
      {"2022-05-01T00:00:00.5+02:00", "2022-04-30T22:00:00.5Z"},
      {"2022-05-01T00:00:00.123456789-11:30", "2022-05-01T11:30:00.123456789Z"},
      {"2023-12-31T23:30:00-00:45", "2024-01-01T00:15:00Z"}};
  for (const auto& [time, utc] : times) {
    CAPTURE(time);
    CHECK(ImportedText("a.jsonl", trial_with("started_at", time)).store.trials("e").at(0).started_at == utc);
  }
  for (const char* time :
       {"2022-05-01", "2022-13-01T00:00:00Z", "2022-00-01T00:00:00Z", "2022-05-32T00:00:00Z",
        "2022-05-01T24:00:00Z", "2022-05-01T00:60:00Z", "2022-05-01T00:00:61Z", "2022-05-01T00:00:00",
        "2022-05-01T00:00:00.Z", "2022-05-01T00:00:00+02", "2022-05-01T00:00:00Zx", "2022-05-01 00:00:00Z",
        "2022-05-01T00:00:00+24:00", "2022-05-01T00:00:00+01:60", "0000-01-01T00:00:00+01:00",
        "2022-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2022-04-31T00:00:00Z"}) {
    CAPTURE(time);
    CHECK_THAT(refusal_of("a.jsonl", trial_with("started_at", time)), Contains("must be a time"));
  }
}

TEST_CASE("a CSV that breaks off in its last row is refused, whatever ends its lines") {
  const std::string header = "experiment,scenario,case,arm,pair,nodes,gpus_per_node,images_per_second";
  const std::string row = "lab,f,one,vm,1,1,1,1301.25";
  for (const std::string end : {"\n", "\r\n"}) {
    CAPTURE(end);
    const auto whole = header + end + row + end;
    CHECK(in_images(ImportedText("t.csv", whole).store.trials("lab").at(0).throughput) == 1301.25);
    for (const auto& text : {header + end + "lab,f,one,vm,1,1,1,130", whole.substr(0, whole.size() - 1),
                             header + end + "lab,f,one,vm,1,1,1,\"130\""}) {
      CHECK_THAT(refusal_of("t.csv", text),
                 StartsWith("t.csv:2: ") && Contains("no line end") && Contains("fresh copy"));
    }
  }
  CHECK_THAT(refusal_of("t.csv", header), StartsWith("t.csv:1: ") && Contains("no line end"));
}

TEST_CASE("names that begin with apostrophes or as formulas come back from CSV as they were") {
  const auto case_of = [](const std::string& name) {
    const auto row = "\ne,s," + name + ",vm,1,1,9.5\n";
    const ImportedText got("t.csv",
                           "experiment,scenario,case,arm,nodes,gpus_per_node,images_per_second" + row);
    return got.store.trials("e").at(0).case_name;
  };
  CHECK(case_of("'=q") == "=q");
  CHECK(case_of("''=q") == "'=q");
  CHECK(case_of("''q") == "'q");
  CHECK(case_of("'q") == "'q");
  CHECK(case_of("'") == "'");
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const std::vector<std::string> names = {"'", "''", "''=q", "'-", "'=q", "'q", "=q", "@q", "q'"};
  store.add_experiment(an_experiment("e"));
  for (const auto& name : names) { add_finished(store, "e", name, "vm", 1, 10); }
  const ImportedText back("t.csv", render(view_table(store, {"e"}, "v_trial"), Format::csv));
  std::vector<std::string> got;
  for (const auto& trial : back.store.trials("e")) { got.push_back(trial.case_name); }
  std::sort(got.begin(), got.end());
  CHECK(got == names);
}

TEST_CASE("row 9: import adds nothing to an experiment measured here, and sets no label of it") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  auto measured = an_experiment("e");
  measured.scenario = "s";
  measured.virtrain_version = "0.1.0";
  store.add_experiment(measured);
  add_finished(store, "e", "c", "bare_metal", 1, 100);
  std::ofstream(folder.path / "more.jsonl") << trial_line << "\n";
  std::ofstream(folder.path / "label.jsonl") << trial_with("label", "better") << "\n";
  std::ofstream(folder.path / "probe.jsonl")
      << R"({"record":"probe","experiment":"e","scenario":"s","name":"triad","arm":"vm","value":1,"unit":"B/s"})"
      << "\n";
  std::istringstream nothing;
  for (const char* name : {"more.jsonl", "label.jsonl", "probe.jsonl"}) {
    CAPTURE(name);
    const auto error = error_of([&] { import_paths(store, {folder.path / name}, {}, nothing); });
    CHECK(error.code() == ErrorCode::bad_input);
    CHECK_THAT(error.message(), Contains(std::string(name) + ":1: experiment e is in the database already"));
  }
  auto settings = of_trials;
  settings.scenario = "s";
  CHECK_THROWS_WITH(import_paths(store, {exchange_data / "two-gpus.log"}, settings, nothing),
                    Contains("in the database already"));
  CHECK(store.trials("e").size() == 1);
  CHECK(store.experiment("e").value().label.empty());
  CHECK(store.probes("e").empty());
  // What imports put together may grow by further imports.
  ImportedText grown("a.jsonl", trial_line);
  std::ofstream(grown.folder.path / "b.jsonl") << replaced(trial_line, "\"pair\":1", "\"pair\":2");
  import_paths(grown.store, {grown.folder.path / "b.jsonl"}, {}, nothing);
  CHECK(grown.store.trials("e").size() == 2);
}

TEST_CASE("row 10: terminal escapes of a file do not reach the operator, nor megabytes of it") {
  const std::string evil =
      "\x1b[2J\xc2\x9b"
      "31m\xe2\x80\xae\nerror: all is well\n";
  const std::string flood(3'000'000, 'A');
  const auto quoted = nlohmann::json(evil).dump();
  CHECK_THAT(refusal_of("a.jsonl", R"({"record":)" + quoted + "}"), !Contains("\nerror"));
  CHECK_THAT(refusal_of("a.jsonl", R"({"record":"trial",)" + quoted + ":1}"), !Contains("\nerror"));
  CHECK_THAT(refusal_of("a.jsonl", "{\"record\":\"" + flood), StartsWith("a.jsonl:1:3000012: "));
  CHECK_THAT(refusal_of("a.jsonl", "{\"record\":\"trial\",\"" + flood + "\":1,\"" + flood + "\":2}"),
             Contains("appears twice"));
  CHECK_THAT(refusal_of("a.jsonl", "{\"" + flood + "\":1}"), StartsWith("a.jsonl:1: "));
  CHECK_THAT(refusal_of("t.csv", flood + ",images_per_second\n1,2\n"), StartsWith("t.csv:1:"));
  CHECK_THAT(refusal_of("t.csv", "experiment,images_per_second\n\"" + evil + "\",\x1b[2J\n"),
             StartsWith("t.csv:"));
  const auto log = text_of("two-gpus.log");
  CHECK_THAT(refusal_of("a.log", replaced(log, "128 global", "\x1b]0;x\x07 global"), of_trials),
             StartsWith("a.log:7: "));
  CHECK_THAT(refusal_of("a.log", replaced(log, "619.87", flood), of_trials), StartsWith("a.log:"));
  const auto nccl = text_of("nccl-tests/all_reduce_perf.txt");
  CHECK_THAT(refusal_of("x.txt", nccl + "Test NCCL failure \x1b[2J" + flood + "\n", of_probes),
             StartsWith("x.txt:") && Contains("failed"));
  CHECK_THAT(refusal_of("r.jsonl", R"({"node":"a","mem-bw/h2d_bw:0":)" + quoted + "}", of_trials),
             StartsWith("r.jsonl:1: "));
}

TEST_CASE("row 18: an index of SuperBench that is too long is refused with its line") {
  const std::string index(30, '9');
  for (const auto& key : {"m/resnet50/fp32_train_throughput:" + index, "nccl-bw/allreduce_8_busbw:" + index,
                          "nccl-bw/allreduce_" + index + "_busbw:0", "mem-bw/h2d_bw:" + index,
                          "gemm-flops/fp16_tc_flops:" + index}) {
    CAPTURE(key);
    CHECK_THAT(refusal_of("r.jsonl", R"({"node":"a",")" + key + R"(":1.5})", of_trials),
               StartsWith("r.jsonl:1: ") && Contains("is not a valid count"));
  }
}

TEST_CASE("row 18: a symlink to itself does not end the import of a folder") {
  const TemporaryFolder folder;
  std::filesystem::copy(exchange_data / "study", folder.path / "study",
                        std::filesystem::copy_options::recursive);
  std::filesystem::create_symlink("loop", folder.path / "study/loop");
  std::filesystem::create_symlink("nowhere", folder.path / "study/vm/dangling.log");
  std::filesystem::create_directory_symlink("..", folder.path / "study/vm/up");
  Store store(folder.path / "results.db");
  std::istringstream nothing;
  CHECK(import_paths(store, {folder.path / "study"}, {}, nothing).size() == 6);
}

TEST_CASE("row 18: a count of wrong elements beyond all numbers is refused") {
  const auto text = text_of("nccl-tests/all_reduce_perf.txt");
  for (const char* wrong : {"1e300", "1e16"}) {
    CHECK_THAT(
        refusal_of("x.txt", replaced(text, "6.47    6.47      0", std::string("6.47    6.47  ") + wrong),
                   of_probes),
        StartsWith("x.txt:") && Contains("not a count"));
  }
}

TEST_CASE("row 18: names in a bundle are different where experiments are, and as long as they like") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  const std::vector<std::string> ids = {
      "a/b", "a_b", "..", std::string(97, 'x'), std::string(300, 'y'), std::string(299, 'y') + "z"};
  for (const auto& id : ids) {
    auto experiment = an_experiment(id);
    experiment.scenario_text = "name: " + id + "\n";
    store.add_experiment(experiment);
    const auto trial = add_finished(store, id, "c", "vm", 1, 10);
    const auto tenant = store.save_tenant(trial, {.tenant_index = 0, .nodes = 1});
    Node node;
    node.name = std::string(200, 'n');
    node.kind = "vm";
    node.domain_xml = "<domain/>";
    store.save_node(tenant, node);
  }
  const auto archive = folder.path / "evidence.tar.gz";
  write_bundle(store, ids, archive, folder.path / "logs");
  const auto listing = run_checked({"tar", "-tzf", archive.string()}).out;
  std::set<std::string> scenarios;
  for (const auto& line : split(listing, '\n')) {
    if (line.ends_with("/scenario.yaml")) { scenarios.insert(line); }
  }
  CHECK(scenarios.size() == ids.size());
  CHECK(scenarios.contains("virtrain-evidence/experiments/a_b/scenario.yaml"));
  CHECK_THAT(listing, !Contains("/../"));
}

TEST_CASE("row 18: a damaged database is refused with its file's name") {
  const auto refused_after = [](const std::string& sql) {
    ImportedText imported("a.jsonl", trial_line);
    const auto file = imported.folder.path / "results.db";
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
    const auto statements = "PRAGMA ignore_check_constraints = ON; PRAGMA writable_schema = ON; " + sql;
    CHECK(sqlite3_exec(database, statements.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
    const auto error = error_of([&] {
      const Store store(file, Store::Mode::open);
      store.list_experiments();
      std::ostringstream out;
      export_jsonl(store, {.all = true}, out);
    });
    CHECK(error.code() == ErrorCode::bad_input);
    CHECK_THAT(error.message(), Contains(file.string()) && Contains("not a sound virtrain database"));
    return error.message();
  };
  CHECK_THAT(refused_after("UPDATE experiment SET status = 'lost'"), Contains("the status \"lost\""));
  CHECK_THAT(refused_after("UPDATE trial SET status = char(27) || '[2J'"),
             Contains("the status") && !Contains("\x1b"));
  CHECK_THAT(refused_after("UPDATE trial SET environment = '{'"), Contains("this is not JSON"));
  CHECK_THAT(refused_after("UPDATE trial SET environment = '" + std::string(70'000, '[') + "'"),
             Contains("nested deeper"));
}

TEST_CASE("row 19: a collective is told by its file's name, in one word or several, or asked for") {
  auto text = replaced(text_of("nccl-tests/all_reduce_perf.txt"),
                       "# Collective test starting: all_reduce_perf\n", "");
  text = replaced(text, "concluded: all_reduce_perf", "concluded");
  const std::pair<const char*, const char*> known[] = {{"nccl_allreduce.log", "all_reduce"},
                                                       {"nccl_allgather.log", "all_gather"},
                                                       {"nccl_reducescatter.log", "reduce_scatter"},
                                                       {"nccl_broadcast.log", "broadcast"},
                                                       {"nccl_reduce.log", "reduce"},
                                                       {"nccl_alltoall.log", "alltoall"},
                                                       {"all_reduce_perf.txt", "all_reduce"},
                                                       {"reduce_scatter_perf_mpi.txt", "reduce_scatter"},
                                                       {"All-To-All.out", "alltoall"},
                                                       {"send_recv.txt", "sendrecv"},
                                                       {"n4-allreduce-16G.txt", "all_reduce"},
                                                       {"scatter_perf.txt", "scatter"}};
  for (const auto& [file, name] : known) {
    CAPTURE(file);
    CHECK(ImportedText(file, text, of_probes).store.probes("e").at(0).name == name);
  }
  for (const char* file : {"reduced.log", "gathered-logs.txt", "allreduce_and_broadcast.txt", "out.txt",
                           "nccl_allreducescatter.log"}) {
    CAPTURE(file);
    CHECK_THAT(refusal_of(file, text, of_probes), Contains("which collective") && Contains("--collective"));
    auto settings = of_probes;
    settings.collective = "all_gather";
    CHECK(ImportedText(file, text, settings).store.probes("e").at(0).name == "all_gather");
  }
  auto settings = of_probes;
  settings.collective = "broadcast";
  CHECK_THAT(refusal_of("x.txt", text_of("nccl-tests/all_reduce_perf.txt"), settings),
             Contains("the output of all_reduce, not of broadcast"));
}

TEST_CASE("row 20: a GPU job is one by its Devices line, whether the lines above are indented or not") {
  const auto text = text_of("two-gpus.log");
  const auto trial_of = [](const std::string& log, const ImportSettings& settings = of_trials) {
    return ImportedText("a.log", log, settings).store.trials("e").at(0);
  };
  const auto flat = trial_of(replaced(text, "             64 per device", "64 per device"));
  CHECK(flat.gpus_per_node == 2);
  CHECK(flat.batch_size == 64);
  const auto without = trial_of(replaced(text, "             64 per device\n", ""));
  CHECK(without.gpus_per_node == 2);
  CHECK_FALSE(without.batch_size);
  const auto cpu = trial_of(replaced(text, "['/gpu:0', '/gpu:1']", "['/cpu:0', '/cpu:1']"));
  CHECK(cpu.gpus_per_node == 0);
  CHECK(cpu.ranks_per_node == 2);
  // Nothing is made up of what is not there.
  const auto unlisted = replaced(text, "Devices:     ['/gpu:0', '/gpu:1']\n", "");
  CHECK_THAT(refusal_of("a.log", unlisted, of_trials), Contains("--gpus-per-node"));
  CHECK_THAT(refusal_of("a.log", replaced(text, "['/gpu:0', '/gpu:1']", ""), of_trials),
             Contains("--gpus-per-node"));
  auto settings = of_trials;
  settings.gpus_per_node = 2;
  CHECK(trial_of(unlisted, settings).gpus_per_node == 2);
  settings.nodes = 1;
  settings.gpus_per_node.reset();
  const auto neither = replaced(unlisted, "             64 per device\n", "");
  CHECK_THAT(refusal_of("a.log", neither, settings), Contains("--gpus-per-node"));
}
