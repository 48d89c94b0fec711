#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace virtrain::results {

/// A connection that NCCL has made for one of its channels (nccl, src/transport/p2p.cc, shm.cc, net.cc):
/// "t1n1:31:40 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "Ring 00 : …" up to NCCL 2.5.
struct NcclConnection {
  std::int64_t from = 0, to = 0;  ///< ranks
  /// "P2P/CUMEM/read", "SHM/direct/direct", "NET/IB/GDRDMA": without the adapter's number, which differs
  /// between channels.
  std::string way;
};
/// The connection of which a line tells; none in other lines. The way is printable, and at most 64 bytes.
std::optional<NcclConnection> nccl_connection_in(std::string_view line);

/// One job as NCCL told of it under NCCL_DEBUG=INFO, all of its ranks together. Texts are printable.
struct NcclLog {
  std::int64_t lines = 0;                                           ///< of NCCL's
  std::string version;                                              ///< "2.22.3+cuda12.6"
  std::int64_t ranks = 0;                                           ///< 0: not said
  std::set<std::string> hosts;                                      ///< names before the process's number
  std::map<std::string, std::int64_t> within_nodes, between_nodes;  ///< connections by way
  std::optional<std::int64_t> channels, nvls_channels;              ///< of collectives
  std::string network;                                              ///< "IB", "Socket", a plugin's name
  std::string bootstrap;                         ///< interface of the first contact: "eth0"
  std::set<std::string> adapters;                ///< "mlx5_2:1/IB"
  bool has_adapter_line = false;                 ///< NCCL has looked for adapters and said so
  bool relaxed_ordering = false;                 ///< of the adapters: "[RO]"
  std::set<std::string> without_gdr;             ///< why GPUDirect RDMA is off, in NCCL's words
  std::map<std::string, std::string> variables;  ///< that the environment sets: NCCL_P2P_DISABLE
  std::optional<double> slowest_link;            ///< GB/s of PCIe, as NCCL's graph has it: "PCI[0.2]"
  std::set<std::string> warnings;                ///< in NCCL's words, at most `most_warnings` different ones

  static constexpr std::size_t most_warnings = 20;

  bool empty() const { return lines == 0; }
};

/// Makes one of all lines of a job's logs; lines of others are passed over.
class NcclLogReader {
 public:
  /// Whether it is a line of NCCL's.
  bool take(std::string_view line);
  NcclLog finish();

 private:
  void take_warning(std::string_view words);
  void take_told(std::string_view line, std::string_view said);

  using RankPair = std::pair<std::int64_t, std::int64_t>;
  NcclLog log_;
  std::map<std::int64_t, std::string> hosts_;                             ///< by rank
  std::map<std::pair<RankPair, std::string>, std::int64_t> connections_;  ///< how many, by pair and way
};

}  // namespace virtrain::results
