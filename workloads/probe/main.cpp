#include <unistd.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <set>

#include "common/model/protocol.h"
#include "common/system/time.h"
#include "common/text/json.h"
#include "common/text/units.h"
#include "workloads/common/peers/peers.h"
#include "workloads/common/processor.h"
#include "workloads/common/program.h"
#include "workloads/common/protocol.h"
#include "workloads/common/watchdog.h"
#include "workloads/probe/compute.h"
#include "workloads/probe/exchange.h"
#include "workloads/probe/flags.h"
#include "workloads/probe/gpu.h"
#include "workloads/probe/memory.h"
#include "workloads/probe/sweep.h"

namespace virtrain::probe {
namespace {

constexpr const char* executable = "virtrain-probe";

/// Round trips are short and vary more than sweeps: so many times as many of them.
constexpr int round_trips_per_iteration = 10;

class Run {
 public:
  Run(const Flags& flags, Peers& peers, Watchdog& watchdog)
      : flags_(flags),
        peers_(peers),
        watchdog_(watchdog),
        placement_(place_threads(allowed_cpus(), 1, 0, flags.threads)) {}

  std::int64_t measure_all() {
    const std::vector<std::string> probes = chosen_probes(flags_, peers_.size());
    say_hello();
    if (peers_.size() == 1) { apply(placement_); }
    const std::int64_t start_ns = monotonic_ns();
    for (const std::string& name : probes) {
      watchdog_.pause();  // what one process measures of the host takes as long as it takes
      if (const auto collective = enum_of<Collective>(name)) {
        sweep(*collective, *host_);
      } else if (const auto of_gpus = nccl_collective(name)) {
        watchdog_.expect("join the other GPUs");
        if (!nccl_) { nccl_ = make_nccl_exchange(peers_, flags_.gpu); }
        sweep(*of_gpus, *nccl_);
      } else {
        report(name, measure_one(name));
      }
    }
    if (records() && peers_.rank() == 0) {
      write_record("result", 0,
                   {{"scope", "tenant"},
                    {"figures", figures_},
                    {"wrong", wrong_},
                    {"seconds", static_cast<double>(monotonic_ns() - start_ns) * 1e-9}});
    }
    return wrong_;
  }

 private:
  bool records() const { return flags_.format == OutputFormat::jsonl; }

  nlohmann::json hello() const {
    const auto library = peers_.library();
    return {{"size", peers_.size()},
            {"hostname", host_name()},
            {"pid", getpid()},
            {"cpuset", allowed_cpus_text()},
            {"threads", placement_.threads},
            {"device", cpu_model()},
            {"mpi", library ? nlohmann::json(*library) : nlohmann::json(nullptr)},
            {"build", build_text()},
            {"configuration", to_json(flags_)}};
  }

  /// Rank 0 writes for all: mpirun may cut a rank's output within a line and put another's between.
  void say_hello() {
    const std::vector<std::string> all =
        peers_.gather(hello().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const nlohmann::json fields = parse_json(all[rank], "read a rank's hello", ErrorCode::protocol);
      processes_.push_back({fields["hostname"], fields["pid"], ""});
      if (records() && peers_.rank() == 0) { write_record("hello", static_cast<int>(rank), fields); }
    }
  }

  std::vector<Figure> measure_one(const std::string& name) {
    if (name == "gemm") {
      return measure_gemm(flags_.gemm_size > 0 ? flags_.gemm_size : 2048, flags_.repetitions);
    }
    if (name == "convolutions") {
      return measure_convolutions({flags_.batch_size, flags_.image_size, flags_.repetitions});
    }
    if (is_gpu_probe(name)) {
      watchdog_.expect("measure " + name);
      return measure_gpu(name, gpu_setting());
    }
    if (name == "round_trip") {
      watchdog_.expect("measure round_trip");
      return {measure_round_trip(peers_, flags_.min_bytes,
                                 flags_.warmup_iterations * round_trips_per_iteration,
                                 flags_.iterations * round_trips_per_iteration)};
    }
    const MemorySetting setting{flags_.bytes, last_level_cache_bytes(allowed_cpus()), flags_.repetitions};
    return {name == "triad" ? measure_triad(setting) : measure_copy(setting)};
  }

  GpuSetting gpu_setting() const {
    GpuSetting setting{flags_.gpu, flags_.bytes, flags_.repetitions};
    if (flags_.gemm_size > 0) { setting.gemm_size = flags_.gemm_size; }
    return setting;
  }

  void sweep(Collective collective, Exchange& exchange) {
    const Repetitions repetitions{flags_.warmup_iterations, flags_.iterations};
    const std::vector<std::string> devices = peers_.gather(exchange.device());
    for (std::size_t rank = 0; rank < devices.size(); ++rank) { processes_[rank].device = devices[rank]; }
    if (!records()) {
      write_table(nccl_preamble({collective, flags_.min_bytes, flags_.max_bytes, flags_.factor, repetitions,
                                 exchange.library(), processes_}));
    }
    std::vector<SweepLine> lines;
    for (const std::uint64_t bytes : sweep_sizes(flags_)) {
      watchdog_.expect(std::string("measure ") + to_string(collective) + " of " + format_size(bytes));
      lines.push_back(measure(collective, exchange, peers_, bytes, repetitions));
      if (!records()) { write_table(nccl_line(lines.back())); }
      for (Figure& figure : figures(lines.back())) {
        figure.detail["library"] = exchange.library();
        if (&exchange == nccl_.get()) { figure.transport = "nccl"; }
        keep(std::move(figure));
      }
    }
    if (!records()) { write_table(nccl_conclusion(collective, lines)); }
    table_ = {};
  }

  /// Figures that are no lines of a sweep.
  void report(const std::string& probe, const std::vector<Figure>& figures) {
    if (figures.empty()) { note(probe + ": there is nothing to measure, since there is no other GPU here"); }
    if (!records()) { write_table(table_.lines(figures)); }
    for (const Figure& figure : figures) { keep(figure); }
  }

  /// Prints a note, which is neither a figure nor a failure.
  void note(const std::string& message) const {
    if (!records()) { write_table("# " + message + "\n"); }
    if (records() && peers_.rank() == 0) { write_record("note", 0, {{"message", message}}); }
  }

  void keep(Figure figure) {
    ++figures_;
    wrong_ += figure.wrong;
    if (!records() || peers_.rank() != 0) { return; }
    std::set<std::string> hosts;
    // A round trip is of two, whoever else is there.
    const std::size_t taking_part =
        figure.name == "round_trip" ? std::min<std::size_t>(2, processes_.size()) : processes_.size();
    for (std::size_t i = 0; i < taking_part; ++i) { hosts.insert(processes_[i].host); }
    figure.nodes = static_cast<int>(hosts.size());
    if (peers_.size() == 1) {
      figure.node = processes_.front().host;
    } else if (!flags_.transport.empty()) {
      figure.transport = flags_.transport;
    }
    write_record(protocol::ProbeFigure::record, 0, to_json(figure));
  }

  void write_table(const std::string& text) const {
    if (peers_.rank() == 0) { write_out(text); }
  }

  const Flags& flags_;
  Peers& peers_;
  Watchdog& watchdog_;
  std::unique_ptr<Exchange> host_ = make_host_exchange(peers_);
  std::unique_ptr<Exchange> nccl_;  ///< once it is wanted
  std::vector<Process> processes_;
  ThreadPlacement placement_;
  int figures_ = 0;
  std::int64_t wrong_ = 0;
  Table table_;
};

/// Measures what the flags name and writes tables or records; rank 0 writes for all ranks. The watchdog is
/// told where ranks wait for each other, or the host for a GPU. Returns the number of wrong elements. A
/// failure is told, and ends all ranks.
std::int64_t run(const Flags& flags, Peers& peers, Watchdog& watchdog) {
  std::optional<Run> run;
  try {
    return run.emplace(flags, peers, watchdog).measure_all();
  } catch (const std::exception&) {
    // While NCCL still stands: taking it down may wait for ranks that are gone.
    peers.abort(report_current_failure(executable, "measure"));
  }
}

/// Probes of one process wait for its GPU, all others for other ranks.
std::string words_of_a_stall(const Flags& flags) {
  if (std::none_of(flags.probes.begin(), flags.probes.end(), is_gpu_probe)) {
    return stall_words(flags.stall_seconds);
  }
  return "nothing came of it for " + std::to_string(flags.stall_seconds) +
         " s: the GPU may be broken or gone (nvidia-smi and the kernel's log say so), or it is too slow for "
         "so much (then --stall_seconds gives it longer)";
}

int measure_and_report(const Flags& flags) {
  Watchdog watchdog(std::chrono::seconds(flags.stall_seconds), [&](const std::string& doing) {
    report_failure(executable, doing, words_of_a_stall(flags));
  });
  watchdog.expect("join the other ranks");
  const std::unique_ptr<Peers> peers = join_peers();
  const std::int64_t wrong = run(flags, *peers, watchdog);
  watchdog.expect("leave the other ranks");
  if (wrong == 0) { return 0; }
  if (peers->rank() == 0) {
    report_failure(executable, "check the data",
                   std::to_string(wrong) + " elements were wrong; the figures do not count");
  }
  return 1;
}

}  // namespace
}  // namespace virtrain::probe

int main(int argc, char** argv) {
  using namespace virtrain;
  return run_program(
      probe::executable, "start", [&] { return probe::parse_flags(argc, argv); }, probe::measure_and_report);
}
