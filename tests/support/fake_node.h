#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/files/unique_fd.h"
#include "common/frames/frame.h"
#include "vmctl/api/node.h"

namespace virtrain::test {

/// What goes wrong in the byte stream between a node's agent and the coordinator.
enum class StreamFault {
  closes,          ///< the agent is killed
  goes_silent,     ///< the agent's messages no longer arrive
  floods,          ///< one message arrives thousands of times
  sends_no_frame,  ///< bytes that are not a frame arrive
};

/// Before the `nth` message of this type that the agent sends ("announce", "hello", "output").
struct StreamFaultAt {
  std::string type;
  StreamFault fault = StreamFault::closes;
  int nth = 1;
};

/// A node of a FakeHost: an agent's process, and the thread through which its stream goes.
class FakeNode {
 public:
  FakeNode(const std::filesystem::path& agent, const vmctl::NodeFacts& facts, const std::string& hostname,
           std::vector<StreamFaultAt> faults);
  FakeNode(const FakeNode&) = delete;
  FakeNode& operator=(const FakeNode&) = delete;
  ~FakeNode();

  UniqueFd take_stream() { return std::move(outer_); }
  void kill() const;

 private:
  void spawn(const std::filesystem::path& program, int fd);
  void relay();
  bool from_coordinator();
  bool from_agent();
  /// False: nothing more comes.
  bool pass_on(Frame frame, std::string raw);
  /// By those of the node that it stands for.
  void replace_facts(nlohmann::json& facts) const;

  const vmctl::NodeFacts facts_;
  const std::string hostname_;
  const std::vector<StreamFaultAt> faults_;
  UniqueFd agent_, coordinator_, outer_;
  pid_t pid_ = -1;
  FrameDecoder decoder_;
  std::string raw_;  ///< what has come and was not passed on yet
  std::map<std::string, int> seen_;
  bool is_silent_ = false, breaks_protocol_ = false;
  std::thread relay_;
};

}  // namespace virtrain::test
