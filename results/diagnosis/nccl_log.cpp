#include "results/diagnosis/nccl_log.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

/// Longer than any that NCCL knows; whoever wrote the log may print anything.
constexpr std::size_t most_name_bytes = 64;
constexpr std::size_t most_warning_bytes = 200;
constexpr std::size_t most_kept = 1'000'000;  // a job of 540 nodes makes fewer connections
constexpr std::size_t most_values = 64;       ///< of one kind: adapters, variables, hosts

/// "3[1a000]" is 3: a rank and its device.
std::optional<std::int64_t> rank_of(std::string_view text) {
  return parse_integer(trim(text.substr(0, text.find('['))));
}

/// "NET/IB/8(3)/GDRDMA/Shared" is "NET/IB/GDRDMA": which adapter, relayed by whom and from which pool of
/// buffers differs between channels and is none of the way.
std::string way_of(std::string_view words) {
  words = trim(words);
  if (words == "direct shared memory") { return "SHM"; }
  std::vector<std::string> parts;
  for (auto& part : split(words, '/')) {
    const bool is_number = !part.empty() && std::isdigit(static_cast<unsigned char>(part[0])) != 0;
    if (!part.empty() && !is_number && part != "Shared") { parts.push_back(std::move(part)); }
  }
  return join(parts, "/");
}

/// The text after `mark`, up to its first blank; empty without the mark.
std::string_view word_after(std::string_view text, std::string_view mark) {
  const auto at = text.find(mark);
  if (at == std::string_view::npos) { return {}; }
  const auto rest = trim(text.substr(at + mark.size()));
  return rest.substr(0, rest.find_first_of(" \t"));
}

void insert_name(std::set<std::string>& names, std::string_view name) {
  if (!name.empty() && names.size() < most_values) { names.insert(excerpt(name, most_name_bytes)); }
}

/// "8 coll channels, 8 collnet channels, 0 nvls channels, …"
void take_channels(NcclLog& log, std::string_view said) {
  for (const auto& part : split(said, ',')) {
    const auto words = words_of(part);
    if (words.size() < 3 || words[2] != "channels") { continue; }
    const auto count = parse_integer(words[0]);
    if (!count || *count < 0) { continue; }
    auto& kept = words[1] == "coll" ? log.channels : log.nvls_channels;
    if (words[1] == "coll" || words[1] == "nvls") { kept = std::min(kept.value_or(*count), *count); }
  }
}

/// "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_2:1/IB [RO]; OOB eno2np0:172.18.62.154<0>"
void take_adapters(NcclLog& log, std::string_view said) {
  log.has_adapter_line = true;
  for (auto word : words_of(said.substr(0, said.find(';')))) {
    if (word == "[RO]") { log.relaxed_ordering = true; }
    const auto end = word.find(']');
    if (!word.starts_with('[') || end == std::string_view::npos || end + 1 == word.size()) { continue; }
    insert_name(log.adapters, word.substr(end + 1));
  }
}

void take_information(NcclLog& log, std::string_view said) {
  constexpr std::string_view version_mark = "NCCL version ", ranks_mark = "nranks ",
                             gdr_mark = "GPU Direct RDMA Disabled";
  constexpr std::string_view adapters_mark = "NET/IB : Using ", variable_mark = " set by environment to ";
  if (const auto version = word_after(said, version_mark); !version.empty()) {
    log.version = excerpt(version, most_name_bytes);
  } else if (const auto ranks = word_after(said, ranks_mark); !ranks.empty()) {
    log.ranks = std::max(log.ranks, parse_integer(ranks).value_or(0));
  } else if (said.find("coll channels") != std::string_view::npos) {
    take_channels(log, said);
  } else if (const auto adapters = said.find(adapters_mark); adapters != std::string_view::npos) {
    take_adapters(log, said.substr(adapters + adapters_mark.size()));
  } else if (said.find("NET/IB : No device found") != std::string_view::npos) {
    log.has_adapter_line = true;
  } else if (const auto gdr = said.find(gdr_mark); gdr != std::string_view::npos) {
    insert_name(log.without_gdr, trim(said.substr(gdr + gdr_mark.size())));
  } else if (const auto set = said.find(variable_mark); set != std::string_view::npos) {
    const auto name = trim(said.substr(0, set));
    if (name.starts_with("NCCL_") && log.variables.size() < most_values) {
      auto value = trim(said.substr(set + variable_mark.size()));
      if (value.ends_with('.')) { value.remove_suffix(1); }
      log.variables[excerpt(name, most_name_bytes)] = excerpt(value, most_name_bytes);
    }
  } else if (const auto network = word_after(said, "Using network "); !network.empty()) {
    log.network = excerpt(network, most_name_bytes);
  } else if (auto interface = word_after(said, "Bootstrap : Using "); !interface.empty()) {
    if (const auto end = interface.find(']'); end != std::string_view::npos) {
      interface.remove_prefix(end + 1);
    }
    log.bootstrap = excerpt(interface.substr(0, interface.find(':')), most_name_bytes);
  }
}

/// "+ PCI[0.2] - PCI/65000 (104c8232)": a link of NCCL_DEBUG_SUBSYS=GRAPH, in GB/s.
void take_link(NcclLog& log, std::string_view said) {
  constexpr std::string_view mark = "+ PCI[";
  const auto at = said.find(mark);
  if (at == std::string_view::npos) { return; }
  const auto rest = said.substr(at + mark.size());
  double speed = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), speed);
  if (error == std::errc() && speed > 0 && end != rest.data() + rest.size() && *end == ']') {
    log.slowest_link = std::min(log.slowest_link.value_or(speed), speed);
  }
}

/// "gcn151:1904979:1905031 [0] NCCL INFO …": the name before the process's number, empty where there is none.
std::string_view host_of(std::string_view line) {
  const auto prefix = line.substr(0, line.find(' '));
  const auto colon = prefix.find(':');
  const auto process = colon == std::string_view::npos ? std::string_view() : prefix.substr(colon + 1);
  return !process.empty() && parse_integer(process.substr(0, process.find(':'))) ? prefix.substr(0, colon)
                                                                                 : std::string_view();
}

/// The rank whose communicator a line is about: "… rank 7 nranks 8 …".
std::optional<std::int64_t> own_rank(std::string_view said) {
  const auto rank = word_after(said, " rank ");
  return rank.empty() || said.find(" nranks ") == std::string_view::npos ? std::nullopt : parse_integer(rank);
}

}  // namespace

std::optional<NcclConnection> nccl_connection_in(std::string_view line) {
  constexpr std::string_view info = "NCCL INFO ", colon_mark = " : ", arrow_mark = " -> ", via_mark = " via ";
  const auto begin = line.find(info);
  if (begin == std::string_view::npos) { return std::nullopt; }
  line.remove_prefix(begin + info.size());
  if (!line.starts_with("Channel ") && !line.starts_with("Ring ")) { return std::nullopt; }
  const auto colon = line.find(colon_mark), arrow = line.find(arrow_mark), via = line.find(via_mark);
  if (via == std::string_view::npos || colon > arrow || arrow > via) { return std::nullopt; }
  const auto from = rank_of(line.substr(colon + colon_mark.size(), arrow - colon - colon_mark.size()));
  const auto to = rank_of(line.substr(arrow + arrow_mark.size(), via - arrow - arrow_mark.size()));
  auto way = way_of(line.substr(via + via_mark.size()));
  const bool is_plain = !way.empty() && way.size() <= most_name_bytes && way.find(',') == std::string::npos &&
                        printable(way) == way;
  if (!from || !to || *from < 0 || *to < 0 || *from == *to || !is_plain) { return std::nullopt; }
  return NcclConnection{*from, *to, std::move(way)};
}

bool NcclLogReader::take(std::string_view line) {
  constexpr std::string_view info = "NCCL INFO ", warn = "NCCL WARN ";
  const auto warned = line.find(warn);
  const auto told = line.find(info);
  if (warned != std::string_view::npos) {
    take_warning(trim(line.substr(warned + warn.size())));
  } else if (told != std::string_view::npos) {
    take_told(line, line.substr(told + info.size()));
  } else if (line.starts_with("NCCL version ")) {
    take_information(log_, line);
    return true;
  } else {
    return false;
  }
  ++log_.lines;
  return true;
}

NcclLog NcclLogReader::finish() {
  for (const auto& [key, count] : connections_) {
    const auto& [pair, way] = key;
    const auto from = hosts_.find(pair.first), to = hosts_.find(pair.second);
    const bool are_known = from != hosts_.end() && to != hosts_.end();
    const bool is_between = are_known ? from->second != to->second : way.starts_with("NET/");
    (is_between ? log_.between_nodes : log_.within_nodes)[way] += count;
  }
  connections_.clear();
  return std::exchange(log_, {});
}

void NcclLogReader::take_warning(std::string_view words) {
  if (log_.warnings.size() < NcclLog::most_warnings) {
    log_.warnings.insert(excerpt(words, most_warning_bytes));
  }
}

void NcclLogReader::take_told(std::string_view line, std::string_view said) {
  const auto host = host_of(line);
  insert_name(log_.hosts, host);
  if (auto connection = nccl_connection_in(line)) {
    if (connections_.size() < most_kept) {
      ++connections_[{std::minmax(connection->from, connection->to), std::move(connection->way)}];
    }
    return;
  }
  const auto rank = own_rank(said);
  if (rank && !host.empty() && hosts_.size() < most_kept) { hosts_[*rank] = excerpt(host, most_name_bytes); }
  take_link(log_, said);
  take_information(log_, said);
}

}  // namespace virtrain::results
