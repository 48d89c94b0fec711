#include "workloads/probe/flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>

#include "common/error.h"
#include "common/model/workload.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "workloads/common/program.h"

namespace virtrain::probe {
namespace {

constexpr std::uint64_t element_bytes = 4;
/// MPI counts with an int: elements of four bytes, and in round_trip bytes.
constexpr std::uint64_t most_bytes = 4ULL << 30;
constexpr std::uint64_t most_round_trip_bytes = std::numeric_limits<int>::max();

using Names = std::vector<std::string>;

/// The range that a scenario's workload has for the same setting.
template <typename Value>
CLI::Range range_of(Value Workload::*member) {
  const auto is = property_of(member);
  return {is.least, is.most};
}

Names together(std::initializer_list<Names> lists) {
  Names names;
  for (const Names& list : lists) { names.insert(names.end(), list.begin(), list.end()); }
  return names;
}

Names all_probes() {
  return together({single_probes, model_probes, gpu_probes, nccl_probes, rank_probes});
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> probes_in(const std::string& text) {
  std::vector<std::string> names;
  if (text.empty()) { return names; }
  for (const std::string& name : split(text, ',')) {
    if (!is_in(all_probes(), name)) {
      throw usage("--probe: '" + printable(name) +
                  "' is unknown (allowed, separated by commas: " + join(all_probes(), ", ") + ")");
    }
    if (is_in(names, name)) { throw usage("--probe: '" + name + "' is named twice"); }
    names.push_back(name);
  }
  return names;
}

std::uint64_t size_in(const std::string& flag, const std::string& text, std::uint64_t least,
                      std::uint64_t most) {
  const auto bytes = parse_size_bytes(text);
  if (!bytes || *bytes < least || *bytes > most) {
    throw usage(flag + ": '" + printable(text) + "' is not an allowed size (" + format_size(least) + " to " +
                format_size(most) + ", as 4096, 64KiB, 16MiB, 1GiB)");
  }
  return *bytes;
}

}  // namespace

ParsedFlags parse_flags(int argc, const char* const* argv) {
  ParsedFlags parsed;
  Flags& flags = parsed.flags;
  CLI::App app(
      "Measures what training waits for: memory, arithmetic, and what MPI and NCCL make of the network.\n"
      "It checks the data it moves, starts at once and reads no standard input.",
      "virtrain-probe");
  app.footer(
      "Examples:\n"
      "  virtrain-probe --probe triad,gemm --threads 8\n"
      "  virtrain-probe --probe convolutions,memory_copy --batch_size 32 --image_size 64\n"
      "  mpirun -np 2 virtrain-probe --probe all_reduce --min_bytes 1KiB --max_bytes 64MiB > all_reduce.txt\n"
      "  mpirun -np 2 virtrain-probe --probe all_reduce,round_trip --format jsonl --transport tcp\n"
      "  mpirun -np 2 virtrain-probe --probe nccl_all_reduce,nccl_all_gather,nccl_broadcast (a GPU each)");
  std::string probes;
  std::string min_bytes = "8";
  std::string max_bytes = "64MiB";
  std::string bytes;
  std::string format = "table";
  app.add_option(
      "--probe", probes,
      "Of one process: " + join(single_probes, ", ") + "; of the model: " + join(model_probes, ", ") +
          "; of a GPU: " + join(gpu_probes, ", ") + "; of ranks: " + join(rank_probes, ", ") +
          "; of ranks with a GPU each, or one alone: " + join(nccl_probes, ", ") +
          "; separated by commas (default: all CPU probes that are valid for this number of ranks)");
  app.add_option("--min_bytes", min_bytes, "Smallest message of a sweep")->capture_default_str();
  app.add_option("--max_bytes", max_bytes, "Largest message of a sweep")->capture_default_str();
  app.add_option("--factor", flags.factor, "From one size of a sweep to the next")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("--iterations", flags.iterations, "Counted operations of each size")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--warmup_iterations", flags.warmup_iterations, "Operations before the counted ones")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--threads", flags.threads,
                 "Threads of triad, memory_copy, gemm and convolutions (default: cores it may run on)")
      ->check(range_of(&Workload::threads));
  CLI::Option* bytes_option = app.add_option("--bytes", bytes,
                                             "One array of triad and memory_copy (default: 4 times the "
                                             "last-level cache), or what is copied to, from or "
                                             "within a GPU (default: 256MiB, within it 1GiB)");
  app.add_option("--repetitions", flags.repetitions, "Of what one process measures; the best one counts")
      ->check(CLI::Range(2, 10'000))
      ->capture_default_str();
  app.add_option("--gemm_size", flags.gemm_size,
                 "Rows and columns of each matrix (default: 2048, of a GPU 4096)")
      ->check(CLI::Range(16, 32768));
  app.add_option("--batch_size", flags.batch_size, "Images of convolutions")
      ->check(range_of(&Workload::batch_size))
      ->capture_default_str();
  app.add_option("--image_size", flags.image_size, "Their height and width")
      ->check(range_of(&Workload::image_size))
      ->capture_default_str();
  app.add_option("--gpu", flags.gpu, "Which GPU, as CUDA counts; of several ranks on a host the first rank's")
      ->check(CLI::Range(0, 63))
      ->capture_default_str();
  app.add_option("--stall_seconds", flags.stall_seconds,
                 "Seconds without progress after which ranks, or a probe of a GPU, end with an error")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  app.add_option("--transport", flags.transport, "Kept with the figures of ranks, for example tcp or shm");
  app.add_option("--format", format, "table, or jsonl (a record a line)")
      ->check(CLI::IsMember({"table", "jsonl"}))
      ->capture_default_str();
  parsed.help = parse_command_line(app, argc, argv);
  if (parsed.help) { return parsed; }
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) { flags.given.push_back(option->get_name()); }
  }
  flags.probes = probes_in(probes);
  flags.format = format == "jsonl" ? OutputFormat::jsonl : OutputFormat::table;
  flags.min_bytes = size_in("--min_bytes", min_bytes, element_bytes, most_bytes);
  flags.max_bytes = size_in("--max_bytes", max_bytes, element_bytes, most_bytes);
  if (flags.max_bytes < flags.min_bytes) {
    throw usage("--max_bytes " + max_bytes + " is less than --min_bytes " + min_bytes);
  }
  if (bytes_option->count() > 0) { flags.bytes = size_in("--bytes", bytes, 4096, 1ULL << 40); }
  if (flags.transport.size() > 64) { throw usage("--transport: more than 64 bytes"); }
  return parsed;
}

bool is_gpu_probe(const std::string& name) {
  return is_in(gpu_probes, name);
}

namespace {

/// A flag that some probes read, and those.
struct Reading {
  const char* flag;
  Names probes;
};

std::vector<Reading> readings() {
  const Names sweeps = together({{"all_reduce", "all_gather", "broadcast"}, nccl_probes});
  const Names of_ranks = together({rank_probes, nccl_probes});
  return {
      {"--min_bytes", of_ranks},
      {"--max_bytes", sweeps},
      {"--factor", sweeps},
      {"--iterations", of_ranks},
      {"--warmup_iterations", of_ranks},
      {"--threads", together({single_probes, model_probes})},
      {"--bytes", {"triad", "memory_copy", "device_copy", "host_to_device", "device_to_host", "peer_copy"}},
      {"--repetitions", together({single_probes, model_probes, gpu_probes})},
      {"--gemm_size", {"gemm", "gpu_gemm"}},
      {"--batch_size", model_probes},
      {"--image_size", model_probes},
      {"--gpu", together({gpu_probes, nccl_probes})},
      {"--stall_seconds", together({rank_probes, nccl_probes, gpu_probes})},
      {"--transport", of_ranks}};
}

/// A flag that changes nothing would leave its user in the belief that it did.
void check_that_flags_are_read(const Flags& flags, const Names& chosen) {
  for (const auto& [flag, readers] : readings()) {
    if (!is_in(flags.given, flag)) { continue; }
    const auto reads = [&readers = readers](const std::string& probe) { return is_in(readers, probe); };
    if (std::none_of(chosen.begin(), chosen.end(), reads)) {
      throw usage(std::string(flag) + " has no meaning with --probe " + join(chosen, ",") +
                  " (allowed with: " + join(readers, ", ") + ")");
    }
  }
}

const Names& possible_probes(int ranks) {
  return ranks > 1 ? rank_probes : single_probes;
}

void check_that_ranks_fit(const Names& probes, int ranks) {
  for (const std::string& name : probes) {
    if (is_in(possible_probes(ranks), name) || nccl_collective(name)) { continue; }
    if (ranks == 1 && (is_gpu_probe(name) || is_in(model_probes, name))) { continue; }
    throw usage(ranks > 1
                    ? "--probe " + name +
                          " measures one process and would be disturbed by the other ranks "
                          "(allowed under mpirun: " +
                          join(together({rank_probes, nccl_probes}), ", ") + ")"
                    : "--probe " + name +
                          " needs at least two ranks (mpirun -np 2 virtrain-probe …; allowed "
                          "for one process: " +
                          join(together({single_probes, model_probes, gpu_probes, nccl_probes}), ", ") + ")");
  }
}

}  // namespace

std::vector<std::string> chosen_probes(const Flags& flags, int ranks) {
  const Names& chosen = flags.probes.empty() ? possible_probes(ranks) : flags.probes;
  check_that_ranks_fit(chosen, ranks);
  check_that_flags_are_read(flags, chosen);
  if (is_in(chosen, "round_trip") && flags.min_bytes > most_round_trip_bytes) {
    throw usage("--min_bytes: round_trip sends messages of less than " +
                format_size(most_round_trip_bytes + 1) +
                " (use a smaller one, or leave round_trip out of --probe)");
  }
  return chosen;
}

std::optional<Collective> nccl_collective(const std::string& name) {
  if (!is_in(nccl_probes, name)) { return std::nullopt; }
  return enum_of<Collective>(name.substr(name.find('_') + 1));
}

std::vector<std::uint64_t> sweep_sizes(const Flags& flags) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = flags.min_bytes; bytes <= flags.max_bytes;
       bytes *= static_cast<std::uint64_t>(flags.factor)) {
    sizes.push_back(bytes);
  }
  return sizes;
}

nlohmann::json to_json(const Flags& flags) {
  return {{"probes", flags.probes},
          {"min_bytes", flags.min_bytes},
          {"max_bytes", flags.max_bytes},
          {"factor", flags.factor},
          {"iterations", flags.iterations},
          {"warmup_iterations", flags.warmup_iterations},
          {"threads", flags.threads},
          {"bytes", flags.bytes},
          {"repetitions", flags.repetitions},
          {"gemm_size", flags.gemm_size},
          {"batch_size", flags.batch_size},
          {"image_size", flags.image_size},
          {"gpu", flags.gpu},
          {"stall_seconds", flags.stall_seconds},
          {"transport", text_or_null(flags.transport)},
          {"format", flags.format == OutputFormat::jsonl ? "jsonl" : "table"}};
}

}  // namespace virtrain::probe
