#include "results/reproduction/study_facts.h"

#include <fmt/format.h>

#include <array>

#include "common/error.h"
#include "common/text/cpu_list.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// Something about a study that changes its figures: key of imported trials' `environment`, and its words.
struct StudyTopic {
  std::string_view key;
  std::string_view words;
};
/// Everything that is set side by side, in the order it is shown.
constexpr std::array topics = {
    StudyTopic{"host", "host"},
    StudyTopic{"cpu_model", "processor"},
    StudyTopic{"bios", "BIOS"},
    StudyTopic{"kernel", "kernel"},
    StudyTopic{"hypervisor", "hypervisor"},
    StudyTopic{"virtualization", "virtualization"},
    StudyTopic{"vcpus", "vCPUs of a VM"},
    StudyTopic{"memory", "memory of a VM"},
    StudyTopic{"gpu_name", "GPU"},
    StudyTopic{"driver", "GPU driver"},
    StudyTopic{"cuda", "CUDA"},
    StudyTopic{"nic", "network adapter"},
    StudyTopic{"transport", "transport between ranks"},
    StudyTopic{"workload", "trainer"},
    StudyTopic{"backend", "backend"},
    StudyTopic{"precision", "precision"},
    StudyTopic{"batch_size", "batch size of a rank"},
    StudyTopic{"image_size", "image size in pixels"},
    StudyTopic{"runs", "runs of a case and arm"},
};

std::string json_words(const json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

class FactCollector {
 public:
  explicit FactCollector(const Store& store) : store_(store) {}

  StudyFacts collect(const Experiment& experiment) {
    add_host(experiment);
    for (const auto& trial : store_.trials(experiment.id)) {
      if (trial.status == Status::finished) { add_trial(trial); }
    }
    for (const auto& [case_and_arm, count] : runs_) { add("runs", std::to_string(count)); }
    return std::move(facts_);
  }

 private:
  void add(std::string_view topic, const std::string& value) {
    if (!value.empty()) { facts_[std::string(topic)].insert(value); }
  }

  void add_host(const Experiment& experiment) {
    add("host", experiment.host_name);
    for (const auto& [key, value] : experiment.fingerprint) {
      if (key == "qemu" || key == "libvirt") { add("hypervisor", value); }
    }
    for (const auto& topic : topics) {
      const auto known = experiment.fingerprint.find(std::string(topic.key));
      if (known != experiment.fingerprint.end()) { add(topic.key, known->second); }
    }
    if (!experiment.virtrain_version.empty()) { add("workload", "virtrain " + experiment.virtrain_version); }
  }

  void add_trial(const Trial& trial) {
    ++runs_[{trial.case_name, trial.arm}];
    if (trial.batch_size) { add("batch_size", std::to_string(*trial.batch_size)); }
    add("precision", trial.precision);
    add("backend", trial.backend);
    if (trial.virtualization != "none") { add("virtualization", trial.virtualization); }
    for (const auto& topic : topics) {
      if (trial.environment.is_object() && trial.environment.contains(topic.key)) {
        add(topic.key, json_words(trial.environment.at(std::string(topic.key))));
      }
    }
    for (const auto& tenant : store_.tenants(trial.id)) { add_tenant(tenant); }
  }

  void add_tenant(const Tenant& tenant) {
    add("transport", tenant.transport);
    if (tenant.workload.is_object() && tenant.workload.contains("image_size")) {
      add("image_size", json_words(tenant.workload.at("image_size")));
    }
    for (const auto& node : store_.nodes(tenant.id)) {
      add_gpu(node);
      if (node.kind != "vm") { continue; }
      const auto cpus = node.fingerprint.find("cpus");
      if (cpus != node.fingerprint.end()) { add_cpus(cpus->second); }
      if (node.memory_bytes) { add("memory", format_size(static_cast<std::uint64_t>(*node.memory_bytes))); }
    }
  }

  /// The guest's own word: whatever it is, the other facts stand.
  void add_cpus(const std::string& list) {
    try {
      add("vcpus", std::to_string(parse_cpu_list(list).size()));
    } catch (const Error&) {
      add("vcpus", fmt::format("\"{}\", which is not a list of CPUs", excerpt(list)));
    }
  }

  /// Adds the reports of the ranks in a node on their GPUs; where they differ, it is a list.
  void add_gpu(const Node& node) {
    for (const char* topic : {"gpu_name", "driver", "cuda"}) {
      const auto said = node.fingerprint.find(topic);
      if (said == node.fingerprint.end()) { continue; }
      for (const auto& value : split(said->second, ',')) { add(topic, std::string(trim(value))); }
    }
  }

  const Store& store_;
  StudyFacts facts_;
  std::map<std::pair<std::string, std::string>, std::int64_t> runs_;
};

std::string joined(const StudyFacts& facts, std::string_view topic) {
  const auto found = facts.find(topic);
  return found == facts.end() ? "" : fmt::format("{}", fmt::join(found->second, ", "));
}

}  // namespace

StudyFacts study_facts(const Store& store, const std::string& experiment) {
  return FactCollector(store).collect(store.known_experiment("read", experiment));
}

std::vector<StudyDifference> study_differences(const StudyFacts& published, const StudyFacts& own) {
  std::vector<StudyDifference> differences;
  for (const auto& [key, words] : topics) {
    StudyDifference line{std::string(words), joined(published, key), joined(own, key)};
    if (line.published != line.own) { differences.push_back(std::move(line)); }
  }
  return differences;
}

}  // namespace virtrain::results
