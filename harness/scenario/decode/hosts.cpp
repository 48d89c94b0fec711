#include "harness/scenario/decode/hosts.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "harness/scenario/decode/described.h"
#include "harness/scenario/decode/input_file.h"

namespace virtrain::harness {
namespace {

using vmctl::HostNetwork;
using vmctl::HostNetworkKind;

constexpr std::size_t most_words = 64;
constexpr std::size_t most_word_bytes = most_launcher_word_bytes;
constexpr const char* name_form = "^[A-Za-z0-9._:@][A-Za-z0-9._:@-]{0,252}$";
constexpr const char* name_rule =
    "a host's name or address as ssh takes it: letters, digits and '.', '_', ':', '@', '-', not first a '-', "
    "at most 253";

/// Schema of an example with several hosts.
Schema example_hosts() {
  auto hosts = Schema::array();
  for (const char* name : {"gpu-a", "gpu-b"}) {
    hosts.push_back({{"name", name}, {"network", {{"kind", "bridge"}, {"name", "br-data"}}}});
  }
  return hosts;
}

/// "{host}" without its quotes is a mapping.
bool is_bare_placeholder(const YAML::Node& node) {
  return node.IsMap() && node.size() == 1 && node.begin()->first.IsScalar() &&
         node.begin()->first.Scalar() == "host";
}

std::vector<std::string> decode_launcher(MapReader& in, Diagnostics& diagnostics) {
  const About about{
      .text =
          "What starts virtrain-host on a host: ssh, slurm, sudo, or the words of a command, in "
          "which {host} is the host's name and virtrain-host the program; no shell reads them",
      .fallback = "ssh",
      .example = Schema::array({"ssh", "-T", host_placeholder, "sudo", "-n", "virtrain-host"})};
  const auto field = in.child("launcher", about);
  if (!field) { return launcher_words(KnownLauncher::ssh); }
  if (field->describes()) {
    const Schema words{{"type", "array"},
                       {"minItems", 1},
                       {"maxItems", most_words},
                       {"items", {{"type", "string"}, {"minLength", 1}, {"maxLength", most_word_bytes}}}};
    (*field->schema)["anyOf"] = {{{"enum", enum_names<KnownLauncher>()}}, words};
    return {};
  }
  const auto& node = field->node;
  if (node.IsScalar()) {
    const auto known = enum_of<KnownLauncher>(node.Scalar());
    if (known) { return launcher_words(*known); }
    in.refuse(
        "launcher",
        "launcher: '{}' is not allowed (allowed: {}, or a list of words such as [ssh, -T, \"{{host}}\", "
        "virtrain-host])",
        excerpt(node.Scalar(), 60), enum_list<KnownLauncher>());
    return {};
  }
  std::vector<std::string> words;
  for (const auto& item : read_list(*field, "launcher", 1, most_words, diagnostics)) {
    if (is_bare_placeholder(item.node)) {
      diagnostics.add(item.mark(), "launcher: {{host}} is a mapping to YAML (write \"{}\", with the quotes)",
                      host_placeholder);
    } else if (!item.node.IsScalar() || !is_launcher_word(item.node.Scalar())) {
      diagnostics.add(item.mark(),
                      "launcher: a word must be text of 1 to {} bytes without control characters",
                      most_word_bytes);
    }
    words.push_back(item.node.IsScalar() ? item.node.Scalar() : "");
  }
  const auto is_named = [](const std::string& word) { return word.find(host_placeholder) != word.npos; };
  if (words.empty()) { return words; }
  if (is_named(words[0])) {
    in.refuse("launcher", "launcher: its first word is the program to start, which cannot be {}",
              host_placeholder);
  }
  if (words[0] != "sudo" && std::ranges::none_of(words, is_named) && diagnostics.empty()) {
    in.refuse("launcher",
              "launcher: no word has {}, so that it would start all hosts' programs in one place (allowed "
              "without: sudo, for this machine)",
              host_placeholder);
  }
  return words;
}

HostNetwork decode_host_network(const Field& field, Diagnostics& diagnostics) {
  constexpr auto kind_row = property_of(&HostNetwork::kind), name_row = property_of(&HostNetwork::name);
  HostNetwork network;
  MapReader in(field, "network", diagnostics);
  in.require(kind_row.key);
  in.require(name_row.key);
  // No file says none: who has no network leaves it out.
  constexpr std::array kinds{HostNetworkKind::bridge, HostNetworkKind::vxlan, HostNetworkKind::vf};
  if (const auto kind = in.one_of(kind_row.key, {"bridge", "vxlan", "vf"}, about(kind_row))) {
    network.kind = kinds.at(*kind);
  }
  read_text(in, name_row, network.name);
  in.finish();
  return network;
}

void refuse_name(const YAML::Mark& mark, const std::string& name, Diagnostics& diagnostics) {
  diagnostics.add(mark, "'{}' is not the name of a host (allowed: {})", excerpt(name, 60), name_rule);
}

/// A host, and where the file has it.
struct FoundHost {
  ListedHost host;
  YAML::Mark mark, network_mark;
};

FoundHost decode_host(const Field& item, Diagnostics& diagnostics) {
  FoundHost found{{}, item.mark(), item.mark()};
  if (item.node.IsScalar()) {
    found.host.name = item.node.Scalar();
    if (!is_host_name(found.host.name)) { refuse_name(item.mark(), found.host.name, diagnostics); }
    return found;
  }
  MapReader in(item, "host", diagnostics);
  in.require("name");
  const About about{
      .text = "Name or address as the launcher takes it", .example = "gpu-a", .pattern = name_form};
  if (const auto name = in.text("name", most_word_bytes, about)) {
    found.host.name = *name;
    if (!is_host_name(*name)) { refuse_name(in.mark("name"), *name, diagnostics); }
  }
  if (const auto network = in.child("network", {.text = "What nodes on other hosts are reached by",
                                                .absent = "the host has to be the only one"})) {
    found.network_mark = network->mark();
    found.host.network = decode_host_network(*network, diagnostics);
  }
  in.finish();
  return found;
}

void describe_host(const Field& item, Diagnostics& unused) {
  Schema map;
  decode_host({{}, &map}, unused);
  *item.schema = {{"anyOf", {{{"type", "string"}, {"pattern", name_form}}, std::move(map)}}};
}

void check_together(const std::vector<FoundHost>& found, Diagnostics& diagnostics) {
  std::set<std::string> names;
  const auto with_network = std::ranges::find_if(
      found, [](const FoundHost& one) { return one.host.network.kind != HostNetworkKind::none; });
  for (const auto& one : found) {
    const auto& host = one.host;
    if (!names.insert(host.name).second) {
      diagnostics.add(one.mark, "two hosts are named '{}'", excerpt(host.name, 60));
    } else if (found.size() > 1 && host.network.kind == HostNetworkKind::none) {
      diagnostics.add(one.mark,
                      "host '{}' needs a network, for there are several hosts (such as network: {{kind: "
                      "bridge, name: br-data}})",
                      excerpt(host.name, 60));
    } else if (host.network.kind != HostNetworkKind::none &&
               host.network.kind != with_network->host.network.kind) {
      diagnostics.add(one.network_mark,
                      "host '{}' has {} and host '{}' has {} (allowed: one kind for all hosts)",
                      excerpt(host.name, 60), to_string(host.network.kind),
                      excerpt(with_network->host.name, 60), to_string(with_network->host.network.kind));
    }
  }
}

/// A hosts file, or the key `hosts` where it is no path.
HostList decode_host_list(const Field& field, const std::string& what, Diagnostics& diagnostics) {
  HostList list;
  MapReader in(field, what, diagnostics);
  in.require("hosts");
  const auto complaints = diagnostics.found().size();
  list.launcher = decode_launcher(in, diagnostics);
  const About about{.text = "Hosts by their names, which are taken in alphabetical order",
                    .example = example_hosts()};
  if (const auto hosts = in.child("hosts", about)) {
    std::vector<FoundHost> found;
    for (const auto& item : read_list(*hosts, "hosts", 1, most_hosts, diagnostics)) {
      if (item.describes()) {
        describe_host(item, diagnostics);
        break;
      }
      found.push_back(decode_host(item, diagnostics));
    }
    if (diagnostics.found().size() == complaints) { check_together(found, diagnostics); }
    if (found.size() > 1 && !list.launcher.empty() && list.launcher.front() == "sudo") {
      in.refuse("launcher", "launcher: sudo starts virtrain-host on this machine only (allowed: one host)");
    }
    for (auto& one : found) { list.hosts.push_back(std::move(one.host)); }
  }
  in.finish();
  std::ranges::sort(list.hosts, {}, &ListedHost::name);
  return list;
}

/// As YAML reads it, too.
std::string list_text(const HostList& list) {
  auto hosts = nlohmann::json::array();
  for (const auto& host : list.hosts) {
    nlohmann::json one{{"name", host.name}};
    if (host.network.kind != HostNetworkKind::none) {
      one["network"] = {{"kind", to_string(host.network.kind)}, {"name", host.network.name}};
    }
    hosts.push_back(std::move(one));
  }
  return dump_json({{"launcher", list.launcher}, {"hosts", std::move(hosts)}});
}

constexpr const char* where_else = "virtrain schema hosts describes what a hosts file has";

HostList decode_hosts_text(const std::string& text, const std::string& file_name) {
  Diagnostics diagnostics(file_name);
  HostList list;
  if (const auto document = parse_input(text, file_name, diagnostics)) {
    list = decode_host_list({*document}, "the hosts file", diagnostics);
  }
  diagnostics.throw_if_any();
  return list;
}

/// Whether it means a file, and not names.
bool names_file(const std::string& option) {
  std::error_code unknown;
  return option == "-" || option.find('/') != std::string::npos ||
         std::ranges::any_of(std::array{".yaml", ".yml", ".json"},
                             [&](const char* ending) { return option.ends_with(ending); }) ||
         std::filesystem::is_regular_file(option, unknown);
}

[[noreturn]] void refuse_hosts_option(const std::string& words) {
  throw Error("read --hosts", ErrorCode::usage,
              words + " (allowed: a hosts file, or names with commas between such as gpu-a,gpu-b)");
}

bool has_these(const std::string& text, const HostList& hosts) {
  try {
    Diagnostics unused("");
    const auto node = YAML::Load(text)["hosts"];
    return node.IsDefined() && decode_host_list({node}, "hosts", unused) == hosts && unused.empty();
  } catch (const YAML::Exception&) { return false; }
}

/// The bytes of the key's value where it is a scalar in one line.
std::optional<std::pair<std::size_t, std::size_t>> written_scalar(const std::string& text,
                                                                  const YAML::Node& value) {
  if (value.Mark().is_null() || value.Mark().pos < 0) { return std::nullopt; }
  const auto at = static_cast<std::size_t>(value.Mark().pos);
  for (const char* quote : {"", "'", "\""}) {
    const auto written = quote + value.Scalar() + quote;
    if (text.compare(at, written.size(), written) == 0) { return std::pair(at, written.size()); }
  }
  return std::nullopt;
}

std::string with_hosts(const std::string& text, const HostList& hosts) {
  YAML::Node document = YAML::Load(text);
  const YAML::Node value = std::as_const(document)["hosts"];
  std::string changed = text;
  if (!value.IsDefined()) {
    changed += fmt::format("{}hosts: {}\n", text.ends_with('\n') ? "" : "\n", list_text(hosts));
  } else if (const auto scalar = value.IsScalar() ? written_scalar(text, value) : std::nullopt) {
    changed.replace(scalar->first, scalar->second, list_text(hosts));
  }
  if (has_these(changed, hosts)) { return changed; }
  document["hosts"] = YAML::Load(list_text(hosts));  // comments are lost
  YAML::Emitter emitter;
  emitter << document;
  return std::string(emitter.c_str()) + "\n";
}

/// A step that shares all that the job has on the host.
std::vector<std::string> slurm_words() {
  std::vector<std::string> words{"env"};
  // srun takes these of a job for options of the step. It refuses a step of one node with SLURM_GPUS, the
  // GPUs of all nodes, or with SLURM_HINT next to --cpu-bind, and SLURM_LABELIO writes between the frames.
  for (const char* name :
       {"SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET", "SLURM_NTASKS_PER_GPU",
        "SLURM_NTASKS_PER_NODE", "SLURM_TRES_PER_TASK", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK",
        "SLURM_CPUS_PER_GPU", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_HINT",
        "SLURM_THREADS_PER_CORE", "SLURM_DISTRIBUTION", "SLURM_EXACT", "SLURM_LABELIO", "SLURM_STDINMODE",
        "SLURM_STDOUTMODE"}) {
    words.push_back(std::string("--unset=") + name);
  }
  // --unbuffered: else srun keeps what comes after the last line feed, and frames have none.
  // --cpu-bind=none: all cores that the job has there. --mem=0: all of its memory.
  for (const char* word : {"srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist={host}",
                           "--unbuffered", "--cpu-bind=none", "--mem=0", "--export=ALL",
                           "--kill-on-bad-exit=0", "--job-name=virtrain-host", "virtrain-host"}) {
    words.emplace_back(word);
  }
  return words;
}

}  // namespace

std::vector<std::string> launcher_words(KnownLauncher launcher) {
  switch (launcher) {
    case KnownLauncher::ssh:
      // A connection that the user keeps open is used, and none is left open: one is enough for a run.
      return {"ssh",
              "-T",
              "-o",
              "BatchMode=yes",
              "-o",
              "ConnectTimeout=10",
              "-o",
              "ServerAliveInterval=5",
              "-o",
              "ServerAliveCountMax=3",
              "-o",
              "ControlMaster=no",
              host_placeholder,
              "virtrain-host"};
    case KnownLauncher::slurm:
      return slurm_words();
    case KnownLauncher::sudo:
      return {"sudo", "-n", "--", "virtrain-host"};
  }
  return {};
}

bool is_launcher_word(const std::string& word) {
  return !word.empty() && word.size() <= most_launcher_word_bytes &&
         std::ranges::all_of(word, [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

bool is_host_name(const std::string& name) {
  const auto plain = [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("._:@-").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= most_host_name_bytes && name[0] != '-' &&
         std::ranges::all_of(name, plain);
}

About about_hosts() {
  return {
      .text =
          "Hosts that nodes are made on: a hosts file, sought from this file's folder, or the same inline",
      .absent = "this machine alone",
      .example = {{"launcher", "ssh"}, {"hosts", example_hosts()}}};
}

HostList decode_hosts_key(const Field& field, const std::optional<std::filesystem::path>& folder,
                          Diagnostics& diagnostics) {
  if (field.describes()) {
    Schema map;
    decode_host_list({{}, &map}, "hosts", diagnostics);
    (*field.schema)["anyOf"] = {{{"type", "string"}, {"minLength", 1}, {"maxLength", most_word_bytes}},
                                std::move(map)};
    return {};
  }
  if (field.node.IsSequence()) {
    diagnostics.add(field.mark(),
                    "hosts must be the path of a hosts file, or what stands in one (such as hosts: "
                    "{hosts: [...]})");
    return {};
  }
  if (!field.node.IsScalar()) { return decode_host_list(field, "hosts", diagnostics); }
  const auto& path = field.node.Scalar();
  if (path.empty() || path == "-" || path.size() > most_word_bytes || path.find('\0') != std::string::npos) {
    diagnostics.add(field.mark(),
                    "hosts must be the path of a hosts file, or a mapping with launcher and hosts");
    return {};
  }
  if (!folder) {
    diagnostics.add(field.mark(),
                    "hosts: '{}' is a file, and this text comes from no folder (give the hosts inline)",
                    excerpt(path, 60));
    return {};
  }
  const auto file = (*folder / path).string();
  std::string text;
  try {
    text = read_input_file(file, where_else);
  } catch (const Error& error) {
    diagnostics.add(field.mark(), "hosts: {}", error.message());
    return {};
  }
  return decode_hosts_text(text, file);  // throws at once: its positions are in another file
}

HostList load_hosts(const std::string& path) {
  return decode_hosts_text(read_input_file(path, where_else), input_name(path));
}

HostList hosts_of(const std::string& option) {
  if (option.empty()) { return {}; }
  if (names_file(option)) { return load_hosts(option); }
  HostList list{launcher_words(KnownLauncher::ssh), {}};
  for (const auto& name : split(option, ',')) {
    if (!is_host_name(name)) {
      refuse_hosts_option(fmt::format("'{}' is neither a file nor {}", excerpt(name, 60), name_rule));
    }
    if (std::ranges::find(list.hosts, name, &ListedHost::name) != list.hosts.end()) {
      refuse_hosts_option(fmt::format("'{}' is there twice", name));
    }
    list.hosts.push_back({name});
  }
  if (list.hosts.size() > most_hosts) {
    refuse_hosts_option(fmt::format("there are more than {} hosts", most_hosts));
  }
  std::ranges::sort(list.hosts, {}, &ListedHost::name);
  return list;
}

HostList hosts_of(const Scenario& scenario, const std::string& option) {
  if (option.empty()) { return scenario.hosts; }
  auto list = hosts_of(option);
  if (names_file(option)) { return list; }
  const auto& known = scenario.hosts.hosts;
  const auto own = [&](const ListedHost& host) {
    return std::ranges::find(known, host.name, &ListedHost::name);
  };
  if (std::ranges::all_of(list.hosts, [&](const auto& host) { return own(host) != known.end(); })) {
    list.launcher = scenario.hosts.launcher;
    for (auto& host : list.hosts) { host = *own(host); }
  } else if (list.hosts.size() > 1) {
    std::vector<std::string> names, strange;
    for (const auto& host : known) { names.push_back(host.name); }
    for (const auto& host : list.hosts) {
      if (own(host) == known.end()) { strange.push_back(host.name); }
    }
    refuse_hosts_option(fmt::format("names alone give no network between several hosts; write a hosts file{}",
                                    known.empty() ? ""
                                                  : fmt::format(" (the scenario has {}, and not {})",
                                                                join(names, ", "), join(strange, ", "))));
  }
  return list;
}

void set_hosts(Scenario& scenario, HostList hosts) {
  scenario.text = with_hosts(scenario.text, hosts);
  scenario.hosts = std::move(hosts);
}

std::string with_hosts_inline(const std::string& text, const HostList& hosts) {
  const YAML::Node document = YAML::Load(text);
  const YAML::Node value = document.IsMap() ? document["hosts"] : YAML::Node();
  return value.IsDefined() && value.IsScalar() ? with_hosts(text, hosts) : text;
}

Schema hosts_schema() {
  Schema schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
                {"$id", "urn:virtrain:hosts"},
                {"title", "virtrain hosts"}};
  Diagnostics unused("");
  decode_host_list({{}, &schema}, "", unused);
  return schema;
}

}  // namespace virtrain::harness
