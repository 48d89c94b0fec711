// Stands where the trainer does in the fault tests: the same protocol, no arithmetic, and a fault on demand
// (FAULT in the environment, from the scenario's workload.env). One rank; the real trainer serves the tests
// over MPI.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <thread>

namespace {

long long monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

int flag(int argc, char** argv, const std::string& name, int otherwise) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--" + name + "=")) { return std::atoi(word.c_str() + name.size() + 3); }
  }
  return otherwise;
}

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

[[noreturn]] void flood() {
  const std::string line(1000, 'x');
  while (true) { std::puts(line.c_str()); }
}

/// Of one step. For bisect's tests: STEP_SECONDS has a per mille of noise, SLOW costs a quarter, and so do
/// SLOW_A and SLOW_B together.
double step_seconds() {
  const std::string wanted = variable("STEP_SECONDS");
  if (wanted.empty()) { return 0.2; }
  const auto is_on = [](const char* name) { return std::string(variable(name)) == "1"; };
  const double noise = 1 + 0.001 * static_cast<double>(monotonic_ns() / 1000 % 3 - 1);
  const bool slow = is_on("SLOW") || (is_on("SLOW_A") && is_on("SLOW_B"));
  return std::atof(wanted.c_str()) * noise * (slow ? 1.25 : 1);
}

void train(int steps, int batch_size, double seconds, const std::string& fault) {
  for (int step = 1; step <= steps; ++step) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    std::printf(R"({"record":"sample","rank":0,"t_ns":%lld,"step":%d,"images":%d,"seconds":%.6f,"loss":%.4f})"
                "\n",
                monotonic_ns(), step, batch_size, seconds, 7.0 / step);
    if (step < 3) { continue; }
    if (fault == "exit") { std::exit(9); }
    if (fault == "garbage") {
      std::puts("{\"record\":\"sample\",\"rank\":0,\"t_ns\":1,\"step\":9,\"images\":4,\"seconds\":-1}");
    }
    if (fault == "flood") { flood(); }
    if (fault == "hang") { ::pause(); }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 4096);
  const std::string fault = variable("FAULT");
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  if (const std::string told = variable("FAKE_HOSTNAME"); !told.empty()) {  // of a FakeHost's node
    host[told.copy(host, sizeof host - 1)] = '\0';
  }
  if (fault == "silent") { ::pause(); }
  std::printf(
      R"({"record":"hello","rank":0,"size":1,"local_rank":0,"hostname":"%s","pid":%d,"isa":"none","threads":1,)"
      R"("visible_gpus":"%s","nccl_topology":"%s"})"
      "\n",
      host, static_cast<int>(::getpid()), variable("CUDA_VISIBLE_DEVICES"), variable("NCCL_TOPO_FILE"));
  std::puts(R"({"record":"ready","rank":0,"parameters_hash":"before"})");
  std::string line;
  if (!std::getline(std::cin, line) || line != "go") { return 2; }
  const int steps = flag(argc, argv, "num_batches", 10), batch_size = flag(argc, argv, "batch_size", 4);
  const double seconds = step_seconds();
  train(steps, batch_size, seconds, fault);
  std::printf(
      R"({"record":"result","rank":0,"scope":"rank","images_per_second":%.3f,"parameters_hash":"after"})"
      "\n",
      batch_size / seconds);
  return 0;
}
