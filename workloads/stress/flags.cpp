#include "workloads/stress/flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "workloads/common/program.h"

namespace virtrain::stress {
namespace {

std::string all_kinds() {
  return enum_list<Kind>(", ");
}

Kind kind_in(const std::string& text) {
  if (const auto kind = enum_of<Kind>(text)) { return *kind; }
  throw usage("--kind: '" + printable(text) + "' is unknown (allowed: " + all_kinds() + ")");
}

/// Whether the work is bytes, so that it can be bounded by a rate of them.
bool moves_bytes(Kind kind) {
  return kind != Kind::cpu && kind != Kind::llc && kind != Kind::gemm && kind != Kind::power;
}

/// A share of the time, or of what moves bytes also so many a second.
void read_rate(Flags& flags, const std::string& text) {
  if (const auto share = parse_share(text); share && *share > 0 && *share <= 1) {
    flags.share = *share;
    return;
  }
  constexpr std::string_view per_second = "/s";
  if (moves_bytes(flags.kind) && text.ends_with(per_second)) {
    flags.bytes_per_second = parse_size_bytes(text.substr(0, text.size() - per_second.size()));
    if (flags.bytes_per_second.value_or(0) > 0) { return; }
  }
  throw usage("--rate: '" + printable(text) + "' is not allowed with --kind " + to_string(flags.kind) +
              " (allowed: a share of the time above 0, at most 100%, as 50% or 0.5" +
              (moves_bytes(flags.kind) ? ", or bytes a second, as 500MiB/s, 2GiB/s)" : ")"));
}

void read_bytes(Flags& flags, const std::string& text) {
  constexpr std::uint64_t least = 1ULL << 20;
  constexpr std::uint64_t most = 1ULL << 44;
  const auto bytes = parse_size_bytes(text);
  if (!bytes || *bytes < least || *bytes > most) {
    throw usage("--bytes: '" + printable(text) + "' is not allowed (allowed: " + format_size(least) + " to " +
                format_size(most) + ", as 64MiB, 2GiB)");
  }
  constexpr std::uint64_t element = 4;  // a float of a vector, or a half in each of a GPU's two buffers
  flags.bytes = *bytes / element * element;
}

/// "node-b:5000", "[fe80::1]:5000"
void read_peer(Flags& flags, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_integer(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535 || colon == 0) {
    throw usage("--peer: '" + printable(text) + "' is not allowed (allowed: HOST:PORT, [IPV6]:PORT)");
  }
  flags.peer_host = text.substr(0, colon);
  if (flags.peer_host.starts_with('[') && flags.peer_host.ends_with(']')) {
    flags.peer_host = flags.peer_host.substr(1, flags.peer_host.size() - 2);
  }
  flags.peer_port = text.substr(colon + 1);
}

/// Each flag of one kind only, as "--file", and the words for the refusal.
void check_combinations(const Flags& flags, bool has_peer, bool has_stall) {
  const auto only_with = [&](bool given, const char* flag, bool fits, const char* kinds) {
    if (given && !fits) {
      throw usage(std::string(flag) + " has no meaning with --kind " + to_string(flags.kind) +
                  " (allowed with: " + kinds + ")");
    }
  };
  only_with(!flags.file.empty(), "--file", flags.kind == Kind::disk, "disk");
  only_with(!flags.serial.empty(), "--serial", flags.kind == Kind::disk, "disk");
  only_with(has_peer, "--peer", flags.kind == Kind::net, "net");
  only_with(flags.listen_port.has_value(), "--listen", flags.kind == Kind::net, "net");
  only_with(flags.bytes > 0, "--bytes",
            flags.kind != Kind::cpu && flags.kind != Kind::net && flags.kind != Kind::gemm &&
                flags.kind != Kind::power,
            "llc, membw, disk, l2, h2d, d2h, allreduce");
  const bool on_ranks = flags.kind == Kind::allreduce;
  only_with(flags.gpu.has_value(), "--gpu", loads_gpu(flags) || on_ranks,
            "gemm, power, l2, membw, h2d, d2h, allreduce");
  only_with(flags.threads > 0, "--threads", !loads_gpu(flags) && !on_ranks, "what loads no GPU and no ranks");
  only_with(has_stall, "--stall_seconds", loads_gpu(flags) || on_ranks,
            "gemm, power, l2, membw with --gpu, h2d, d2h, allreduce");
  constexpr std::uint64_t most_on_ranks = 4ULL << 30;  // MPI counts elements with an int
  if (on_ranks && flags.bytes > most_on_ranks) {
    throw usage("--bytes: more than the " + format_size(most_on_ranks) + " that --kind allreduce takes");
  }
  if (flags.kind == Kind::disk && flags.file.empty() == flags.serial.empty()) {
    throw usage(
        "--kind disk needs one of --file FILE, a new file on the file system to be loaded, and --serial "
        "NUMBER, of a disk to be overwritten");
  }
  if (flags.kind == Kind::net && has_peer == flags.listen_port.has_value()) {
    throw usage("--kind net needs one of --peer HOST:PORT (sends) and --listen PORT (receives)");
  }
  only_with(flags.listen_port && (flags.bytes_per_second || flags.share < 1), "--rate", false,
            "the sending side of net");
  only_with(flags.listen_port && flags.threads > 0, "--threads", false, "the sending side of net");
}

}  // namespace

bool loads_gpu(const Flags& flags) {
  return flags.kind == Kind::gemm || flags.kind == Kind::power || flags.kind == Kind::l2 ||
         flags.kind == Kind::h2d || flags.kind == Kind::d2h || (flags.kind == Kind::membw && flags.gpu);
}

ParsedFlags parse_flags(int argc, const char* const* argv) {
  ParsedFlags parsed;
  Flags& flags = parsed.flags;
  CLI::App app(
      "Loads one part of a machine, so that a neighbour can be measured, and says every second how much it "
      "did.\n"
      "It prints 'hello' and 'ready', waits for the line 'go' on standard input, and ends at 'stop'.",
      "virtrain-stress");
  app.footer(
      "Examples:\n"
      "  echo go | virtrain-stress --kind cpu --rate 50% --seconds 10\n"
      "  (echo go; sleep 10; echo stop) | virtrain-stress --kind membw --rate 2GiB/s --threads 2\n"
      "  echo go | virtrain-stress --kind disk --file /var/tmp/load --bytes 1GiB --seconds 10\n"
      "  echo go | virtrain-stress --kind net --listen 5000 --seconds 30\n"
      "  echo go | virtrain-stress --kind net --peer node-b:5000 --rate 500MiB/s --seconds 20\n"
      "  (echo go; sleep 10; echo stop) | mpirun -np 2 virtrain-stress --kind allreduce --rate 200MiB/s");
  std::string kind, rate, bytes, peer;
  int listen_port = 0;
  app.add_option("--kind", kind,
                 "What to load: " + all_kinds() +
                     " (gemm, power, l2, h2d, d2h, and membw with --gpu: a GPU; allreduce: the ranks of "
                     "mpirun, which rank 0 leads, by MPI, with --gpu by NCCL)")
      ->required();
  app.add_option("--rate", rate,
                 "Upper limit: a share of the time, or bytes a second for kinds that move bytes");
  app.add_option("--threads", flags.threads, "Default: cores it may run on; of disk and net one")
      ->check(CLI::Range(1, 1024));
  app.add_option(
      "--bytes", bytes,
      "Working set (llc: the last-level cache, membw: 4 times it, of a GPU 512MiB; h2d, d2h: 64MiB), vector "
      "of each rank (allreduce: 16MiB, of GPUs 64MiB), size of the file (disk: 1GiB)");
  app.add_option("--seconds", flags.seconds, "How long; 0: until 'stop' or the end of standard input")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--gpu", flags.gpu,
                 "Which GPU, as CUDA counts (default: 0); of allreduce: the first rank's on each host")
      ->check(CLI::Range(0, 63));
  CLI::Option* stall =
      app.add_option("--stall_seconds", flags.stall_seconds,
                     "Of a GPU or of ranks: seconds without progress after which the load ends with an error")
          ->check(CLI::Range(1, 86'400))
          ->capture_default_str();
  app.add_option("--file", flags.file, "Made for disk and removed at the end; must not exist");
  app.add_option("--serial", flags.serial,
                 "In place of --file: the disk whose /sys/block/NAME/serial says this is overwritten");
  app.add_option("--peer", peer, "Send to a virtrain-stress that listens there");
  CLI::Option* listen =
      app.add_option("--listen", listen_port, "Receive on this port (0: any, 'ready' says which)")
          ->check(CLI::Range(0, 65535));
  parsed.help = parse_command_line(app, argc, argv);
  if (parsed.help) { return parsed; }
  if (std::isnan(flags.seconds)) {
    throw usage("--seconds is not a number (allowed: 0 to 1000000)");  // no end
  }
  flags.kind = kind_in(kind);
  if (!rate.empty()) { read_rate(flags, rate); }
  if (!bytes.empty()) { read_bytes(flags, bytes); }
  if (!peer.empty()) { read_peer(flags, peer); }
  if (listen->count() > 0) { flags.listen_port = listen_port; }
  check_combinations(flags, !peer.empty(), stall->count() > 0);
  return parsed;
}

nlohmann::json to_json(const Flags& flags) {
  return {{"kind", to_string(flags.kind)},
          {"share", flags.share},
          {"bytes_per_second", or_null(flags.bytes_per_second)},
          {"threads", flags.threads},
          {"bytes", flags.bytes},
          {"seconds", flags.seconds},
          {"gpu", or_null(flags.gpu)},
          {"stall_seconds", flags.stall_seconds},
          {"file", text_or_null(flags.file)},
          {"serial", text_or_null(flags.serial)},
          {"peer", flags.peer_host.empty() ? nlohmann::json(nullptr)
                                           : nlohmann::json(flags.peer_host + ":" + flags.peer_port)},
          {"listen", or_null(flags.listen_port)}};
}

}  // namespace virtrain::stress
