#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/frames/frame.h"
#include "common/model/described.h"
#include "common/model/workload.h"
#include "common/text/described_json.h"

// The messages between coordinator and agent (docs/architecture.md, "The agent's messages"), as far as they
// have fields beside `type` and `id`. Either side reads a message once, where it comes in.

namespace virtrain::harness::message {

/// A nonce, which the answer has to repeat.
struct Hello {
  static constexpr const char* type = "hello";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, nonce, {}, .text = "Proves that the answer is one to this question");
};

/// The answer to `ping`.
struct Pong {
  static constexpr const char* type = "pong";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, t_ns, 0, .text = "The node's monotonic clock");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, wall_ns, {}, .text = "The node's clock on the wall",
                 .lenient = true);
};

/// A process to start.
struct Start {
  static constexpr const char* type = "start";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::vector<std::string>, argv, {}, .text = "The program and its arguments");
  VIRTRAIN_FIELD(std::optional<Variables>, environment, {},
                 .text = "Variables in addition to the agent's own");
};

/// A process has started.
struct Started {
  static constexpr const char* type = "started";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, pid, 0, .text = "Process id in the node");
  VIRTRAIN_FIELD(std::int64_t, t_ns, 0, .text = "When it was started, on the node's monotonic clock");
};

/// A process has written the bytes of the frame.
struct Output {
  static constexpr const char* type = "output";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, stream, {}, .text = "stdout or stderr");
  VIRTRAIN_FIELD(std::int64_t, t_ns, 0, .text = "When it came, on the node's monotonic clock");
};

/// A process has ended.
struct Exit {
  static constexpr const char* type = "exit";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, status, 0, .text = "How it ended, as a shell has it", .least = 0, .most = 255);
  VIRTRAIN_FIELD(std::int64_t, t_ns, 0, .text = "When it was reaped, on the node's monotonic clock");
};

/// The bytes of the frame go to a process.
struct Stdin {
  static constexpr const char* type = "stdin";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<bool>, eof, {}, .text = "Whether nothing comes after them");
};

/// A signal to a process and its group.
struct Signal {
  static constexpr const char* type = "signal";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, signal, 0, .text = "Number of the signal", .least = 0, .most = 64);
};

/// Number of processes that `sweep` has ended.
struct Swept {
  static constexpr const char* type = "swept";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, count, 0, .text = "Processes that it killed");
};

/// A file whose content comes back as the bytes of `file`.
struct ReadFile {
  static constexpr const char* type = "read_file";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, path, {}, .text = "Path in the node");
};

/// A file whose content is the bytes of the frame.
struct WriteFile {
  static constexpr const char* type = "write_file";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, path, {}, .text = "Path in the node");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, mode, {}, .text = "Its permissions", .least = 0, .most = 07777);
};

/// Whether an address answers the node.
struct Reach {
  static constexpr const char* type = "reach";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, address, {}, .text = "An IP address");
  VIRTRAIN_FIELD(std::int64_t, deadline_ms, 0, .text = "Longest wait for it", .least = 0, .most = 86'400'000);
};

/// The answer to `reach`.
struct Reached {
  static constexpr const char* type = "reached";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<bool>, reached, {}, .text = "Whether it answers, by a refusal too",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, message, {}, .text = "Why not", .lenient = true);
};

/// The answer to `machine`: the hardware and networks of a node that exists already, as they look from inside
/// it.
struct Machine {
  static constexpr const char* type = "machine";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<std::string>, identity, {},
                 .text = "The same in all agents of one machine since its kernel started");
  VIRTRAIN_FIELD(std::optional<bool>, is_guest, {}, .text = "Whether its processor says that it is virtual");
  VIRTRAIN_FIELD(std::optional<std::string>, hypervisor, {}, .text = "Name that its hypervisor gives itself");
  VIRTRAIN_FIELD(std::optional<std::string>, vendor, {}, .text = "Vendor of the system, by its firmware");
  VIRTRAIN_FIELD(std::optional<std::string>, product, {}, .text = "Name of the system, by its firmware");
  VIRTRAIN_FIELD(std::vector<std::string>, networks, {},
                 .text = "An interface that is up and its IPv4 address each: eth0 192.0.2.7/24");
};

/// Readings of the node's counters are wanted, again and again.
struct SampleTelemetry {
  static constexpr const char* type = "telemetry";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, period_ms, 0, .text = "Time between two readings", .least = 0,
                 .most = 86'400'000);
  VIRTRAIN_FIELD(std::optional<std::string>, cores, {}, .text = "Cores whose time counts; absent: all");
};

/// Readings, which are in `values` by their names.
struct Telemetry {
  static constexpr const char* type = "telemetry";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, t_ns, 0, .text = "When they were read, on the node's monotonic clock");
};

/// mpirun wants a command run on another node.
struct Rsh {
  static constexpr const char* type = "rsh";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, host, {}, .text = "Name of the other node");
  VIRTRAIN_FIELD(std::string, command, {}, .text = "For a shell there");
  VIRTRAIN_FIELD(std::optional<std::string>, secret, {}, .text = "Known to the agent's own processes only");
};

/// That command has written the bytes of the frame.
struct RshOutput {
  static constexpr const char* type = "rsh_output";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, stream, {}, .text = "stdout or stderr");
};

/// That command has ended; the bytes of the frame say why it could not run.
struct RshExit {
  static constexpr const char* type = "rsh_exit";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, status, 0, .text = "How it ended, as a shell has it", .least = 0, .most = 255);
};

/// The agent cannot do what it was asked to.
struct Failed {
  static constexpr const char* type = "failed";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<std::string>, message, {}, .text = "What it tried and what came back",
                 .lenient = true);
};

/// The record's fields. Throws Error(protocol) naming the one that does not fit.
template <DescribedRecord Record>
Record read(const Frame& frame) {
  Record record;
  if (const auto refusal = read_record(frame.message, record); !refusal.empty()) {
    throw Error("read frame", ErrorCode::protocol, "field " + refusal);
  }
  return record;
}

/// A frame of the record about request, process or shell `id`.
template <DescribedRecord Record>
Frame frame_of(const Record& record, std::int64_t id = 0, std::string body = {}) {
  Frame frame = make_frame(Record::type, id);
  frame.message.update(message_json(record));
  frame.body = std::move(body);
  return frame;
}

}  // namespace virtrain::harness::message
