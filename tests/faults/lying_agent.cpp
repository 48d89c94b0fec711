// Stands where virtrain-agent does in lies_test.py: holds the conversation by the book and plays the trainer
// and the probe itself, but for one lie. VIRTRAIN_LIES names the lie of each node of the experiment in the
// order in which they are made ("honest,hello_flood,…"; the last one goes on for all further nodes). In a VM,
// which has no such variable, it always tells the same lie.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/frames/frame.h"
#include "common/system/time.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/agent/machine_report.h"
#include "tests/support/made_frame.h"

using namespace virtrain;
using namespace virtrain::harness;
using nlohmann::json;

namespace {

constexpr std::int64_t step_ns = 50'000'000, slow_step_ns = 600'000'000;

std::string my_lie() {
  const char* const lies = std::getenv("VIRTRAIN_LIES");
  const char* slice = std::getenv("VIRTRAIN_SLICE");           // "vt-7f3a2b-3": the third node
  if (slice == nullptr) { slice = std::getenv("FAKE_NODE"); }  // of a FakeHost, likewise
  const auto names = split(lies != nullptr ? lies : "honest", ',');
  const auto number = slice != nullptr ? parse_integer(split(slice, '-').back()).value_or(1) : 1;
  return names[std::min(static_cast<std::size_t>(number), names.size()) - 1];
}

constexpr const char* lie_of_vms = "sample_flood";

/// The only virtio-serial port of a guest.
int open_port() {
  for (const auto& port : entries_of("/sys/class/virtio-ports")) {
    return ::open(("/dev/" + port.filename().string()).c_str(), O_RDWR);
  }
  return -1;
}

/// `count` arrays within each other.
std::string deep(std::size_t count) {
  return std::string(count, '[') + std::string(count, ']');
}

/// A frame whose JSON is this text, whatever encode() would say to it.
std::string raw_frame(const std::string& text) {
  auto frame = encode(Frame{{{"type", ""}}, {}});
  const auto bytes = static_cast<std::uint32_t>(text.size());
  frame.resize(frame_header_bytes);
  for (std::size_t i = 0; i < 4; ++i) { frame[8 + i] = static_cast<char>(bytes >> (8 * i) & 0xff); }
  return frame + text;
}

class LyingAgent {
 public:
  LyingAgent(int fd, std::string lie) : fd_(fd), lie_(std::move(lie)) {}

  void serve() {
    send(make_frame("announce", 0));
    while (true) {
      pollfd ready{fd_, POLLIN, 0};
      ::poll(&ready, 1, floods_ ? 0 : 10);
      if ((ready.revents & (POLLIN | POLLHUP)) != 0 && !is_deaf_) { receive(); }
      if (is_deaf_) { ::usleep(10'000); }
      if (floods_) { flood(); }
      if (!floods_ && is_training_ && monotonic_ns() >= last_ns_ + step_ns_) { train(); }
    }
  }

 private:
  bool lies(std::string_view name) const { return lie_ == name; }

  void write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0) { std::exit(0); }
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void send(const Frame& frame) { write_all(encode(frame)); }

  void receive() {
    char chunk[65536];
    const auto got = ::read(fd_, chunk, sizeof chunk);
    if (got <= 0) { std::exit(0); }
    decoder_.feed({chunk, static_cast<std::size_t>(got)});
    while (const auto frame = decoder_.next()) { answer(*frame); }
  }

  void answer(const Frame& frame) {
    const auto type = string_field(frame.message, "type");
    const auto id = integer_field(frame.message, "id");
    if (type == "hello") {
      hello(frame, id);
    } else if (type == "ping") {
      send(make_frame("pong", id, "t_ns", lies("pong_clock") ? -std::int64_t{1} << 62 : monotonic_ns()));
    } else if (type == "start") {
      start(frame, id);
    } else if (type == "stdin") {
      if (frame.body == "go\n") { go(); }
    } else if (type == "telemetry") {
      telemetry();
    } else if (type == "sweep") {
      send(make_frame("swept", id, "count", 0));
    } else if (type == "reach") {
      send(make_frame("reached", id, "reached", true));
    }
  }

  void hello(const Frame& frame, std::int64_t id) {
    auto facts = read_node_facts();
    if (lies("fact_without_name")) { facts[""] = "x"; }
    if (lies("facts_of_zero")) { facts["memory_limit_bytes"] = 0, facts["boot_id"] = 5; }
    if (lies("huge_facts")) { facts["kernel"] = std::string(60'000, 'k'); }
    if (lies("escapes")) { facts["kernel"] = "6.1\x1b[2J\x1b]0;owned\x07"; }
    if (lies("deep_frame")) {
      return write_all(raw_frame(R"({"type":"hello","id":1,"facts":)" + deep(32'000) + "}"));
    }
    send(make_frame("hello", id, "nonce", string_field(frame.message, "nonce"), "facts", facts));
    if (lies("announce_flood") || lies("message_flood")) { floods_ = true; }
  }

  void start(const Frame& frame, std::int64_t id) {
    send(make_frame("started", id, "pid", 1, "t_ns", monotonic_ns()));
    process_ = id;
    const auto& argv = frame.message["argv"];
    if (argv[0] == "env") { return probe(); }
    if (argv[0] == "/bin/sh") {  // a remote shell
      floods_ = lies("shell_flood");
      return floods_ ? void() : end();
    }
    for (const auto& word : argv) {
      const auto parts = split(word.get<std::string>(), '=');
      if (parts[0] == "--num_batches") { steps_ = parse_integer(parts[1]).value_or(1); }
      if (parts[0] == "--batch_size") { batch_size_ = parse_integer(parts[1]).value_or(1); }
    }
    greet();
  }

  void probe() {
    json record{{"record", "probe"}, {"rank", 0},    {"name", "triad"}, {"nodes", 1},
                {"ranks", 1},        {"value", 1e9}, {"unit", "B/s"},   {"seconds", 0.1}};
    if (lies("probe_unit")) { record["unit"] = "furlongs"; }
    say(lies("deep_probe") ? R"({"record":"probe","detail":)" + deep(30'000) + "}" : record.dump());
    end();
  }

  void greet() {
    json hello{{"record", "hello"}, {"rank", 0}, {"size", 1}, {"local_rank", 0}, {"pid", 1}, {"isa", "none"}};
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    if (const char* told = std::getenv("FAKE_HOSTNAME")) {  // of a FakeHost's node
      host[std::string_view(told).copy(host, sizeof host - 1)] = '\0';
    }
    hello["hostname"] = lies("escapes") ? "\x1b[31m\xc2\x9b\xe2\x80\xae" : host;
    if (lies("hello_of_nobody")) { hello["size"] = 0, hello["pid"] = 0, hello["isa"] = 7; }
    hello_ = hello.dump();
    say(hello_);
    if (lies("deep_record")) { say(R"({"record":"hello","rank":0,"x":)" + deep(2'000) + "}"); }
    if (lies("hello_flood") || lies("line_flood") || lies("empty_lines") || lies("progress_flood") ||
        lies("rsh_flood") || lies("rsh_to_nowhere")) {
      floods_ = true;
    }
    if (lies("rsh_output")) {
      send(make_frame("rsh", 1, "host", "t1n2", "command", "flood"));
      is_deaf_ = true;
    }
    say(R"({"record":"ready","rank":0,"parameters_hash":"before"})");
  }

  void go() {
    is_training_ = true;
    began_ns_ = last_ns_ = monotonic_ns();
    if (lies("sample_flood")) { floods_ = true; }
  }

  void telemetry() {
    std::string metric = "cpu_user_seconds";
    if (lies("metric_without_name")) { metric.clear(); }
    if (lies("metric_names")) { metric = "'; DROP TABLE telemetry; --"; }
    const auto t_ns = lies("telemetry_clock") ? INT64_MAX : monotonic_ns();
    send(make_frame("telemetry", 0, "t_ns", t_ns, "values", json{{metric, 1.0}}));
    if (lies("telemetry_flood")) { floods_ = true; }
  }

  json sample() {
    const auto now_ns = monotonic_ns();
    const double seconds = static_cast<double>(now_ns - last_ns_) * 1e-9;
    last_ns_ = now_ns;
    json record{{"record", "sample"},    {"rank", 0},          {"t_ns", now_ns}, {"step", ++step_},
                {"images", batch_size_}, {"seconds", seconds}, {"loss", 7.0}};
    if (lies("no_images")) { record["images"] = 0; }
    if (lies("huge_images")) { record["images"] = INT64_MAX; }
    if (lies("huge_seconds")) { record["seconds"] = 1e300; }
    if (lies("negative_clock")) { record["t_ns"] = -5; }
    if (lies("far_clock")) { record["t_ns"] = INT64_MAX; }
    if (lies("clock_of_yesterday")) { record["t_ns"] = now_ns - 60'000'000'000; }
    if (lies("fast_samples")) { record["seconds"] = 1e-6; }
    if (lies("many_images")) { record["images"] = 2 * batch_size_; }
    return record;
  }

  void train() {
    auto text = sample().dump();
    if (lies("nan")) { text.replace(text.find("\"loss\":7.0"), 10, "\"loss\":NaN"); }
    if (lies("loss_unknown")) { text.replace(text.find("\"loss\":7.0"), 10, "\"loss\":null"); }
    say(text);
    if (step_ < steps_) { return; }
    is_training_ = false;
    const double seconds = static_cast<double>(last_ns_ - began_ns_) * 1e-9;
    double speed = static_cast<double>(steps_ * batch_size_) / seconds;
    if (lies("huge_speed")) { speed = 1e308; }
    if (lies("twice_the_speed")) { speed *= 2; }
    if (lies("fast_samples")) { speed = static_cast<double>(batch_size_) / 1e-6; }
    if (lies("many_images")) { speed *= 2; }
    json result{{"record", "result"},
                {"rank", 0},
                {"scope", "rank"},
                {"images_per_second", speed},
                {"parameters_hash", "after"}};
    if (lies("result_fields")) { result["step_seconds_p50"] = -1, result["peak_rss_bytes"] = -1; }
    say(result.dump());
    end();
  }

  void end() { send(make_frame("exit", process_, "status", 0, "t_ns", monotonic_ns())); }

  void say(const std::string& lines) {
    auto frame = make_frame("output", process_, "stream", "stdout", "t_ns", monotonic_ns());
    frame.body = lines + "\n";
    send(frame);
  }

  /// As much as fits into a message.
  void say_often(const std::string& line) {
    std::string lines;
    while (lines.size() + line.size() + 2 < max_body_bytes) { lines += line + "\n"; }
    say(lines);
  }

  void flood() {
    if (lies("hello_flood")) { return say_often(hello_); }
    if (lies("sample_flood")) { return say_often(sample().dump()); }
    if (lies("empty_lines")) { return say_often(""); }
    if (lies("progress_flood")) { return say_often(R"({"record":"progress","rank":0,"work":1})"); }
    if (lies("telemetry_flood")) { return telemetry(); }
    if (lies("announce_flood")) { return send(make_frame("announce", 0)); }
    if (lies("message_flood")) { return send(make_frame("hello", 1 << 20, "nonce", "again")); }
    if (lies("rsh_flood")) {
      return send(make_frame("rsh", ++shells_, "host", "t1n2", "command", std::string(60'000, 'c')));
    }
    if (lies("rsh_to_nowhere")) {
      return send(make_frame("rsh", ++shells_, "host", std::string(60'000, 'h'), "command", "true"));
    }
    say_often("a line that is no record and goes on for a while, as if a library had something to tell");
  }

  int fd_;
  std::string lie_;
  FrameDecoder decoder_;
  std::int64_t process_ = 0, shells_ = 0;
  std::int64_t steps_ = 1, batch_size_ = 1, step_ = 0;
  std::int64_t began_ns_ = 0, last_ns_ = 0;
  std::string hello_;
  const std::int64_t step_ns_ = lies("fast_samples") ? slow_step_ns : step_ns;
  bool is_training_ = false, floods_ = false, is_deaf_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  int fd = -1;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--fd") { fd = std::atoi(argv[i + 1]); }
  }
  const bool in_vm = fd < 0;
  try {
    LyingAgent(in_vm ? open_port() : fd, in_vm ? lie_of_vms : my_lie()).serve();
  } catch (const std::exception& error) {
    fmt::print(stderr, "lying agent: {}\n", error.what());
    return 1;
  }
}
