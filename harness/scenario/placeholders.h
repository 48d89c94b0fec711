#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/model/workload.h"

// "{batch_size}" in the words of a job's command. "{{" and "}}" are braces, and so is a brace that no key's
// name and no "}" follow.

namespace virtrain::harness {

/// Whether some braces of a text are there twice, which makes one of two, and others once, as in JSON:
/// {"a": {"b": 1}}. What is meant is not known then.
bool mixes_braces(const std::string& word);

/// Names of a word's placeholders, in their order.
std::vector<std::string> placeholders_in(const std::string& word);
/// Those of all words.
std::set<std::string> placeholders_in(const std::vector<std::string>& words);
/// The word with `values` in place of its placeholders; those of other names stay.
std::string filled(const std::string& word, const std::map<std::string, std::string>& values);

/// Whether a key chooses the built-in trainer, so that no job has it.
bool is_of_trainer(const std::string& key);
/// Settings of a workload that a command may name: its numbers and words, by their keys. A key without a
/// value is empty.
std::map<std::string, std::string> workload_placeholders(const Workload& workload);
/// Names that a command may use of the place where it runs.
inline const std::vector<std::string> placement_placeholders{"nodes", "ranks", "ranks_per_node",
                                                             "gpus_per_node", "threads"};

/// Whether a setting has an effect on the workload: of a job only those that its command names have one.
bool uses_setting(const Workload& workload, const std::string& key);

/// The unit of its throughput.
std::string unit_of(const Workload& workload);

}  // namespace virtrain::harness
