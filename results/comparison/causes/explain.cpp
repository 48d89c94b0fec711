#include "results/comparison/causes/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "common/text/json.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/comparison/guard/comparability.h"

namespace virtrain::results {
namespace {

constexpr double negligible = 0.0005;  // of the throughput, and of the logarithm of the ratio

struct Weighed {
  Finding finding;
  double log_factor = 0;
};

/// Bounds an upper bound by the part that the measured causes leave, in the same direction.
double limited(double log_factor, double rest) {
  if (log_factor < 0 && rest < 0) { return std::max(log_factor, rest); }
  if (log_factor > 0 && rest > 0) { return std::min(log_factor, rest); }
  return 0;
}

std::string evidence_words(const Estimate& estimate, const Evidence& baseline, const Evidence& candidate) {
  return fmt::format("{} in {}, {} in {}{}", estimate.baseline,
                     baseline.name.empty() ? "the baseline" : baseline.name, estimate.candidate,
                     candidate.name.empty() ? "the candidate" : candidate.name, estimate.of);
}

}  // namespace

Explanation explain(double ratio, const Evidence& baseline, const Evidence& candidate) {
  Explanation result;
  result.ratio = ratio;
  result.gap = 1 - ratio;
  const double log_ratio = std::log(ratio);
  const bool has_gap = std::abs(log_ratio) >= negligible;
  std::vector<Weighed> weighed;
  double explained = 0;
  for (const auto& row : cause_rows()) {
    const auto estimate = row.estimate(baseline, candidate);
    if (!estimate) { continue; }
    if (estimate->factor && std::abs(*estimate->factor - 1) < negligible) { continue; }
    Weighed one;
    one.finding = {.cause = std::string(row.cause),
                   .name = std::string(row.name),
                   .meaning = std::string(row.meaning),
                   .baseline = estimate->baseline,
                   .candidate = estimate->candidate,
                   .evidence = evidence_words(*estimate, baseline, candidate),
                   .model = std::string(row.model),
                   .next = std::string(row.next),
                   .at_most = estimate->at_most};
    if (estimate->factor) {
      one.log_factor = std::log(*estimate->factor);
      one.finding.cost = 0;
      if (!estimate->at_most) { explained += one.log_factor; }
    }
    weighed.push_back(std::move(one));
  }
  for (auto& [finding, log_factor] : weighed) {
    if (!finding.cost) { continue; }
    if (finding.at_most) { log_factor = limited(log_factor, log_ratio - explained); }
    finding.cost = 1 - std::exp(log_factor);
    if (has_gap) { finding.share_of_gap = log_factor / log_ratio; }
  }
  // An upper bound that nothing is left for says nothing.
  std::erase_if(weighed, [](const Weighed& one) {
    return one.finding.at_most && one.finding.cost && std::abs(*one.finding.cost) < negligible;
  });
  const double direction = log_ratio > 0 ? -1 : 1;
  std::ranges::stable_sort(weighed, [&](const Weighed& a, const Weighed& b) {
    if (a.finding.cost.has_value() != b.finding.cost.has_value()) { return a.finding.cost.has_value(); }
    return a.log_factor * direction < b.log_factor * direction;
  });
  for (auto& one : weighed) { result.findings.push_back(std::move(one.finding)); }
  if (has_gap) { result.unexplained = 1 - explained / log_ratio; }
  return result;
}

nlohmann::json to_json(const Explanation& explanation) {
  auto findings = nlohmann::json::array();
  for (const auto& finding : explanation.findings) {
    findings.push_back({{"cause", finding.cause},
                        {"words", finding.name + ": " + finding.meaning},
                        {"evidence", finding.evidence},
                        {"model", finding.model},
                        {"cost", or_null(finding.cost)},
                        {"share_of_gap", or_null(finding.share_of_gap)},
                        {"at_most", finding.at_most}});
  }
  return {{"ratio", explanation.ratio},
          {"gap", explanation.gap},
          {"findings", findings},
          {"unexplained", or_null(explanation.unexplained)}};
}

namespace {

using Names = std::initializer_list<const char*>;
using Number = std::optional<double>;

/// A bound that limits nothing: the cause may account for all that the others leave.
constexpr double unlimited = 1e-9;

/// The first of these numbers that is known.
Number number(const Evidence& evidence, Names names) {
  for (const char* name : names) {
    const auto found = evidence.numbers.find(name);
    if (found != evidence.numbers.end()) { return found->second; }
  }
  return std::nullopt;
}

double number_or(const Evidence& evidence, const char* name, double otherwise) {
  return number(evidence, {name}).value_or(otherwise);
}

/// Values of a fact of the nodes, else of their host; none if not known.
std::set<std::string> values(const Evidence& evidence, const std::string& name) {
  for (const auto& key : {name, "host." + name}) {
    const auto found = evidence.facts.find(key);
    if (found != evidence.facts.end()) { return found->second; }
  }
  return {};
}

/// The same in words; empty if not known.
std::string fact(const Evidence& evidence, const std::string& name) {
  const auto all = values(evidence, name);
  return join({all.begin(), all.end()}, ", ");
}

/// The first number in a fact such as "1410 MHz" or "x16".
Number number_in_fact(const Evidence& evidence, const std::string& name) {
  const std::string text = fact(evidence, name);
  const auto digit = text.find_first_of("0123456789");
  if (digit == std::string::npos) { return std::nullopt; }
  const double value = std::strtod(text.c_str() + digit, nullptr);
  return value > 0 ? Number(value) : std::nullopt;
}

bool fact_differs(const Evidence& baseline, const Evidence& candidate, const std::string& name) {
  const auto ours = values(baseline, name);
  const auto theirs = values(candidate, name);
  return !ours.empty() && !theirs.empty() && !are_equal(name, ours, theirs);
}

/// The fact of both sides.
Estimate facts_of_both(const Evidence& baseline, const Evidence& candidate, const std::string& name) {
  return {fact(baseline, name), fact(candidate, name)};
}

std::string share_words(Number share) {
  return share ? fmt::format("{:.2f} %", *share * 100) : "not known (taken as 0)";
}

/// CPU time of all kinds, which is wall time times cores.
Number cpu_rate(const Evidence& evidence) {
  if (!number(evidence, {"rate.cpu_user_seconds"})) { return number(evidence, {"cores"}); }
  double sum = 0;
  for (const char* kind : {"user", "system", "idle", "iowait", "steal"}) {
    sum += number_or(evidence, fmt::format("rate.cpu_{}_seconds", kind).c_str(), 0);
  }
  return sum > 0 ? Number(sum) : std::nullopt;
}

/// A share of time lost on both sides (none where it is not known) as a factor of throughput.
std::optional<Estimate> lost_time(Number ours, Number theirs, const char* of) {
  if (!ours && !theirs) { return std::nullopt; }
  for (auto* share : {&ours, &theirs}) {
    if (*share) { *share = std::clamp(**share, 0.0, 0.999); }
  }
  return Estimate{share_words(ours), share_words(theirs), std::string(" ") + of,
                  (1 - theirs.value_or(0)) / (1 - ours.value_or(0))};
}

/// A rate that the whole throughput, or an unknown part of it, follows. Bytes and operations a second are
/// shown in thousands of millions.
std::optional<Estimate> rate(Number ours, Number theirs, std::string_view unit, bool at_most) {
  if (!ours || !theirs || !(*ours > 0) || !(*theirs > 0)) { return std::nullopt; }
  const double scale = unit == "GB/s" || unit == "GFLOP/s" ? 1e9 : 1;
  const auto words = [&](double value) { return fmt::format("{} {}", figure_words(value / scale), unit); };
  return Estimate{words(*ours), words(*theirs), "", *theirs / *ours, at_most};
}

/// As the guest sees it, or as the host sees its vCPUs wait; whichever is more.
Number steal_share(const Evidence& evidence) {
  Number share;
  if (const auto steal = number(evidence, {"rate.cpu_steal_seconds"})) {
    const double busy = number_or(evidence, "rate.cpu_user_seconds", 0) +
                        number_or(evidence, "rate.cpu_system_seconds", 0) + *steal;
    const bool knows_busy = number(evidence, {"rate.cpu_user_seconds"}).has_value();
    const double wanted = knows_busy ? busy : number_or(evidence, "cores", 1);
    share = wanted > 0 ? *steal / wanted : 0;
  }
  if (const auto wait = number(evidence, {"rate.vcpu_wait_seconds"})) {
    const double ran = number_or(evidence, "rate.vcpu_seconds", 0);
    if (ran + *wait > 0) { share = std::max(share.value_or(0), *wait / (ran + *wait)); }
  }
  return share;
}

/// Whether the work is known to be the processor's, or a GPU's, alone: of the other a probe says nothing
/// about it.
bool is_work_of(const Evidence& evidence, const char* backend) {
  return fact(evidence, "backend") == backend;
}

/// Loss of the processor where a GPU does the work: how much of a step waits for the processor is not known.
std::optional<Estimate> of_processor(const Evidence& baseline, std::optional<Estimate> found) {
  if (found && is_work_of(baseline, "cuda")) { found->at_most = true; }
  return found;
}

std::optional<Estimate> emulation(const Evidence& baseline, const Evidence& candidate) {
  const auto is_emulated = [](const Evidence& evidence) {
    const auto kind = fact(evidence, "virtualization");
    return kind.find("tcg") != std::string::npos || kind.find("kvm_on_emulated") != std::string::npos;
  };
  if (is_emulated(baseline) == is_emulated(candidate)) { return std::nullopt; }
  auto found = facts_of_both(baseline, candidate, "virtualization");
  found.factor = is_emulated(candidate) ? unlimited : 1 / unlimited;
  found.at_most = true;
  return found;
}

std::optional<Estimate> steal(const Evidence& baseline, const Evidence& candidate) {
  return of_processor(baseline,
                      lost_time(steal_share(baseline), steal_share(candidate), "of the CPU time it wanted"));
}

std::optional<Estimate> cores(const Evidence& baseline, const Evidence& candidate) {
  if (auto found = rate(number(baseline, {"cores"}), number(candidate, {"cores"}), "cores a node", false);
      found && found->factor != 1) {
    return of_processor(baseline, found);
  }
  return of_processor(baseline, rate(number(baseline, {"threads_per_rank"}),
                                     number(candidate, {"threads_per_rank"}), "threads a rank", false));
}

constexpr Names clock_names = {"mean.gpu_sm_clock_mhz", "mean.gpu_clock_mhz", "mean.cpu_mhz",
                               "mean.cpu_clock_mhz"};

std::optional<Estimate> clocks(const Evidence& baseline, const Evidence& candidate) {
  for (const char* name : clock_names) {
    if (auto found = rate(number(baseline, {name}), number(candidate, {name}), "MHz", false)) {
      return found;
    }
  }
  return rate(number_in_fact(baseline, "clocks"), number_in_fact(candidate, "clocks"), "MHz", false);
}

std::optional<Estimate> throttling(const Evidence& baseline, const Evidence& candidate) {
  static constexpr Names names = {"rate.gpu_throttled_seconds", "mean.gpu_throttle_share",
                                  "rate.cpu_throttled_seconds", "mean.cpu_throttle_share"};
  auto found = lost_time(number(baseline, names), number(candidate, names), "of the time");
  // Throttling changes the clock, and the clock's own cause counts that.
  if (found && *found->factor != 1 && clocks(baseline, candidate)) { found->factor.reset(); }
  return found;
}

std::optional<Estimate> numa(const Evidence& baseline, const Evidence& candidate) {
  const auto ours = number(baseline, {"mean.numa_remote_share"});
  const auto theirs = number(candidate, {"mean.numa_remote_share"});
  if (!ours && !theirs) { return std::nullopt; }
  // ACPI's SLIT counts local memory as 10; Linux takes 20 for remote memory where the firmware says nothing.
  const double slower = number_or(candidate, "mean.numa_distance", 20) / 10 - 1;
  return Estimate{share_words(ours), share_words(theirs), " of the memory accesses remote",
                  (1 + ours.value_or(0) * slower) / (1 + theirs.value_or(0) * slower), true};
}

/// " (SM)": how both sides measured it, where the source says it.
std::string settings_in_words(const Evidence& evidence, const std::string& name) {
  const auto found = evidence.facts.find(name);
  const bool is_said = found != evidence.facts.end() && !found->second.empty();
  return is_said ? fmt::format(" ({})", *found->second.begin()) : "";
}

/// The first of these probes that both sides have, as a bound.
std::optional<Estimate> probed_rate(const Evidence& baseline, const Evidence& candidate,
                                    const std::vector<std::string>& probes, std::string_view unit) {
  for (const auto& probe : probes) {
    const auto name = "probe." + probe;
    if (auto found = rate(number(baseline, {name.c_str()}), number(candidate, {name.c_str()}), unit, true)) {
      found->of += fmt::format(" ({})", probe) + settings_in_words(baseline, name);
      return found;
    }
  }
  return std::nullopt;
}

std::optional<Estimate> memory_bandwidth(const Evidence& baseline, const Evidence& candidate) {
  std::vector<std::string> probes;
  if (!is_work_of(baseline, "cpu")) { probes.push_back("device_copy"); }
  if (!is_work_of(baseline, "cuda")) {
    probes.insert(probes.end(), {"triad", "stream_triad", "memory_copy", "memory_bandwidth"});
  }
  return probed_rate(baseline, candidate, probes, "GB/s");
}

/// virtrain-probe's word for what a trainer of this precision multiplies.
std::string multiplied_type(const std::string& precision) {
  if (precision == "fp32") { return "float"; }
  if (precision == "bf16") { return "bfloat16"; }
  return precision == "fp16" ? "float16" : precision;
}

std::optional<Estimate> arithmetic(const Evidence& baseline, const Evidence& candidate) {
  const auto type = "." + multiplied_type(fact(baseline, "precision"));
  std::vector<std::string> probes;
  if (!is_work_of(baseline, "cpu")) { probes.insert(probes.end(), {"gpu_gemm" + type, "gpu_gemm"}); }
  if (!is_work_of(baseline, "cuda")) { probes.insert(probes.end(), {"gemm" + type, "gemm"}); }
  return probed_rate(baseline, candidate, probes, "GFLOP/s");
}

/// Width and generation of the link as the GPU tells them; each generation is twice as fast.
std::optional<Estimate> described_link(const Evidence& baseline, const Evidence& candidate) {
  constexpr const char *width = "gpu_pcie_width", *generation = "gpu_pcie_generation";
  double factor = 1;
  if (const auto ours = number_in_fact(baseline, width), theirs = number_in_fact(candidate, width);
      ours && theirs) {
    factor *= *theirs / *ours;
  }
  if (const auto ours = number_in_fact(baseline, generation), theirs = number_in_fact(candidate, generation);
      ours && theirs) {
    factor *= std::exp2(*theirs - *ours);
  }
  if (factor == 1) { return std::nullopt; }
  const auto words = [&](const Evidence& evidence) {
    const auto said = [&](const char* name) {
      return evidence.facts.contains(name) ? fact(evidence, name) : std::string("not known");
    };
    return fmt::format("width {} generation {}", said(width), said(generation));
  };
  return Estimate{words(baseline), words(candidate), "", factor, true};
}

std::optional<Estimate> pcie_link(const Evidence& baseline, const Evidence& candidate) {
  std::optional<Estimate> slower;
  if (is_work_of(baseline, "cpu")) { return slower; }
  for (const char* name : {"probe.host_to_device", "probe.device_to_host"}) {
    auto found = rate(number(baseline, {name}), number(candidate, {name}), "GB/s", true);
    if (!found || (slower && *found->factor >= *slower->factor)) { continue; }
    slower = found;
    slower->of += settings_in_words(baseline, name);
  }
  // A guest may see the link of a virtual port, so what was measured counts for more.
  if (!slower) { return described_link(baseline, candidate); }
  slower->of += " between host and device";
  return slower;
}

Number exposed_share(const Evidence& evidence) {
  return number(evidence, {"exposed_allreduce_share"});
}

/// Bus bandwidth of the all-reduce, weighed by the share of the step that waits for it.
std::optional<Estimate> network_bandwidth(const Evidence& baseline, const Evidence& candidate) {
  for (const char* name : {"probe.all_reduce", "probe.all_gather", "probe.network_bandwidth"}) {
    auto found = rate(number(baseline, {name}), number(candidate, {name}), "GB/s", true);
    if (!found) { continue; }
    found->of += settings_in_words(baseline, name);
    const double slower = 1 / *found->factor;
    if (const auto waiting = exposed_share(baseline)) {
      found->factor = 1 / (1 + *waiting * (slower - 1));
    } else if (const auto waits = exposed_share(candidate)) {
      found->factor = 1 - *waits + *waits / slower;
    } else {
      return found;
    }
    found->at_most = false;
    return found;
  }
  return std::nullopt;
}

/// Cost of waiting for gradients beyond the part that the bandwidth explains.
std::optional<Estimate> exposed_allreduce(const Evidence& baseline, const Evidence& candidate) {
  if (!exposed_share(baseline) || !exposed_share(candidate)) { return std::nullopt; }
  auto found =
      lost_time(exposed_share(baseline), exposed_share(candidate), "of the step waiting for gradients");
  const auto network = network_bandwidth(baseline, candidate);
  if (network && !network->at_most) { found->factor = *found->factor / *network->factor; }
  return found;
}

/// A cause whose effect is in the exposed all-reduce, where that was measured.
std::optional<Estimate> communication_fact(const Evidence& baseline, const Evidence& candidate,
                                           const char* name) {
  if (!fact_differs(baseline, candidate, name)) { return std::nullopt; }
  auto found = facts_of_both(baseline, candidate, name);
  if (exposed_share(baseline) && exposed_share(candidate)) {
    found.of += " (its cost is in the exposed all-reduce)";
  } else {
    found.factor = unlimited;
    found.at_most = true;
  }
  return found;
}

std::optional<Estimate> transport(const Evidence& baseline, const Evidence& candidate) {
  return communication_fact(baseline, candidate, "transport");
}

std::optional<Estimate> peer_to_peer(const Evidence& baseline, const Evidence& candidate) {
  return communication_fact(baseline, candidate, "peer_to_peer");
}

std::optional<Estimate> helper_threads(const Evidence& baseline, const Evidence& candidate) {
  const auto share = [](const Evidence& evidence) -> Number {
    const auto helpers = number(evidence, {"rate.helper_cpu_seconds"});
    const auto all = cpu_rate(evidence);
    return helpers && all ? Number(*helpers / *all) : std::nullopt;
  };
  auto found = lost_time(share(baseline), share(candidate), "of the node's CPU time");
  if (found) { found->at_most = true; }
  return found;
}

std::optional<Estimate> start_spread(const Evidence& baseline, const Evidence& candidate) {
  const auto share = [](const Evidence& evidence) -> Number {
    const auto spread = number(evidence, {"start_spread_seconds"});
    const auto measured = number(evidence, {"measured_seconds"});
    return spread && measured && *measured > 0 ? Number(*spread / (*spread + *measured)) : std::nullopt;
  };
  auto found = lost_time(share(baseline), share(candidate),
                         "of the measured time between the first and the last start");
  if (found) { found->at_most = true; }
  return found;
}

std::optional<Estimate> io_wait(const Evidence& baseline, const Evidence& candidate) {
  const auto share = [](const Evidence& evidence) -> Number {
    const auto waiting = number(evidence, {"rate.cpu_iowait_seconds"});
    const auto all = cpu_rate(evidence);
    return waiting && all ? Number(*waiting / *all) : std::nullopt;
  };
  return of_processor(baseline, lost_time(share(baseline), share(candidate), "of the CPU time"));
}

std::optional<Estimate> instruction_set(const Evidence& baseline, const Evidence& candidate) {
  if (!fact_differs(baseline, candidate, "isa")) { return std::nullopt; }
  // Single-precision numbers in a vector register.
  const auto lanes = [](const std::string& isa) {
    if (isa.find("512") != std::string::npos) { return 16.0; }
    return isa.find("avx") != std::string::npos ? 8.0 : 4.0;
  };
  auto found = facts_of_both(baseline, candidate, "isa");
  found.factor = lanes(fact(candidate, "isa")) / lanes(fact(baseline, "isa"));
  found.at_most = true;
  return found;
}

constexpr std::array table = {
    CauseRow{"emulation", "emulation", "the processor was emulated, not used",
             "no more than what the others leave",
             "run on a host with /dev/kvm (virtrain doctor says what is missing)", emulation},
    CauseRow{"steal", "steal", "other work took the node's cores",
             "throughput follows the CPU time left: 1 - steal",
             "leave a core free for the host, or pin the VMs (guest.pinning: numa), as a variant of the arm",
             steal},
    CauseRow{"cores", "cores", "their number differs", "throughput follows the number of cores",
             "give both arms as many cores (guest.vcpus, workload.threads)", cores},
    CauseRow{
        "clocks", "clocks", "the processor or GPU ran at another clock", "throughput follows the clock",
        "set the host's governor to performance, or fix the GPU's clock (devices.settings.graphics_clock)",
        clocks},
    CauseRow{"throttling", "throttling", "power, heat or a CPU quota held it back",
             "nothing is done while throttled; where clocks are known it is counted there",
             "look for a power limit, heat or a CPU limit on one side", throttling},
    CauseRow{
        "network_bandwidth", "network", "the all-reduce has another bandwidth",
        "the exposed share of the step takes 1 / bandwidth ratio; without that share, all of the step "
        "at most",
        "variants of guest.network (vhost, queues, mtu), or network adapters passed through (devices.nics)",
        network_bandwidth},
    CauseRow{"exposed_allreduce", "exposed all-reduce", "the step waits for gradients",
             "1 - exposed share, less what the network's bandwidth explains",
             "raise workload.batch_size, and add the probe all_reduce to the scenario", exposed_allreduce},
    CauseRow{"transport", "transport", "gradients went another way",
             "measured as exposed all-reduce, else a bound",
             "give both arms the same transport by variables of NCCL or Open MPI in workload.env", transport},
    CauseRow{"peer_to_peer", "peer-to-peer", "GPUs reach each other another way",
             "measured as exposed all-reduce, else a bound",
             "let virtrain topology show the paths between GPUs; devices.clique restores them in VMs",
             peer_to_peer},
    CauseRow{"arithmetic", "arithmetic", "matrices multiply at another rate",
             "as if all of the step were arithmetic",
             "variants of guest.cpu_model, and equal clocks on both sides", arithmetic},
    CauseRow{"memory_bandwidth", "memory", "it has another bandwidth",
             "as if all of the step waited for memory", "variants of guest.hugepages and guest.pinning",
             memory_bandwidth},
    CauseRow{"pcie_link", "PCIe", "the link has another width or speed",
             "as if all of the step waited for the link",
             "let virtrain doctor check the card's link, and nvidia-smi show it under load", pcie_link},
    CauseRow{"numa", "NUMA", "memory of another node was used",
             "as if all of the step waited for memory, remote accesses taking SLIT distance / 10 as long",
             "a variant with guest.pinning: numa", numa},
    CauseRow{"instruction_set", "instruction set", "the library chose another one",
             "as if all of the step were vector arithmetic", "a variant with guest.cpu_model: host",
             instruction_set},
    CauseRow{"helper_threads", "helper threads", "QEMU's own threads used CPU time",
             "as if they ran on the node's own cores",
             "a variant that gives QEMU's threads cores of their own (guest.emulator_threads: apart)",
             helper_threads},
    CauseRow{"start_spread", "start", "the ranks did not start together",
             "as if the others waited all that time", "more workload.warmup_steps, or more steps",
             start_spread},
    CauseRow{"io_wait", "I/O", "the node waited for disks", "1 - share of waiting",
             "a faster disk below the image, or disk limits for what else uses it", io_wait},
};

}  // namespace

std::span<const CauseRow> cause_rows() {
  return table;
}

}  // namespace virtrain::results
