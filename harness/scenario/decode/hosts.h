#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

inline constexpr std::size_t most_hosts = 256;
inline constexpr std::size_t most_host_name_bytes = 253;
/// Where it stands in a launcher's word, the name of the host.
inline constexpr const char* host_placeholder = "{host}";

inline constexpr std::size_t most_launcher_word_bytes = 4096;
/// Whether a word may go to a program as it is, and maybe on to the shell of another machine.
bool is_launcher_word(const std::string& word);

/// Launchers that have a name.
VIRTRAIN_ENUM_CLASS(KnownLauncher, ssh, slurm, sudo)

/// Its words. The bare word virtrain-host among them means this machine's path of that program.
std::vector<std::string> launcher_words(KnownLauncher launcher);

/// Whether a launcher can take it for the name of a host, and nothing else: letters, digits and "._:@-", no
/// "-" in front.
bool is_host_name(const std::string& name);

/// The schema's sentences about a scenario's `hosts`.
About about_hosts();
/// That key: the hosts themselves, or the path of a hosts file sought from `folder`; absent: there may be no
/// path. Throws Error(bad_input) for a file that is refused.
HostList decode_hosts_key(const Field& field, const std::optional<std::filesystem::path>& folder,
                          Diagnostics& diagnostics);

/// Reads and decodes a hosts file; "-" is standard input. Throws Error(bad_input).
HostList load_hosts(const std::string& path);

/// The hosts of a verb's option --hosts: a file, or names with commas between, which ssh reaches and which
/// have no network between them. Throws Error(usage) for wrong names, Error(bad_input) for a wrong file.
HostList hosts_of(const std::string& option);
/// The same for a scenario: its own where the option is empty, and some of its own where those are named.
/// Error(usage) for several other names, for which there is no network.
HostList hosts_of(const Scenario& scenario, const std::string& option);

/// Gives the scenario other hosts, in the text that is stored, too.
void set_hosts(Scenario& scenario, HostList hosts);
/// The text of a scenario with its hosts in place of the path of a hosts file: other machines and later days
/// have no such file. A text without a path is itself.
std::string with_hosts_inline(const std::string& text, const HostList& hosts);

/// The JSON Schema (draft 7) of hosts files.
nlohmann::ordered_json hosts_schema();

}  // namespace virtrain::harness
