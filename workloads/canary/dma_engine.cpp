#include "workloads/canary/dma_engine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"
#include "workloads/canary/gpu.h"
#include "workloads/canary/memory.h"
#include "workloads/canary/requests.h"

namespace virtrain::canary {
namespace {

constexpr std::uint64_t most_pages = 8;

}  // namespace

std::vector<BusRead> read_by_device(DmaEngine& engine, const std::vector<Canary>& canaries,
                                    const std::vector<BusRange>& ranges, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::vector<BusRead> reads;
  for (const auto& range : ranges) {
    BusRead read{.total = range.bytes, .name = range.name.substr(0, most_path_bytes)};
    const auto pages = std::max<std::uint64_t>(1, range.bytes / LockedPage::size);
    const auto samples = std::min(pages, most_pages);
    CanarySearch search(canaries);
    for (std::uint64_t i = 0; i < samples && std::chrono::steady_clock::now() < end; ++i) {
      const auto page = samples == 1 ? 0 : i * (pages - 1) / (samples - 1);
      const auto bytes = std::min<std::uint64_t>(LockedPage::size, range.bytes);
      auto one = engine.read(range.address + page * LockedPage::size, bytes);
      search.feed(one.bytes);
      read.scanned += one.bytes.size();
      if (!one.refused.empty()) { read.refused = one.refused.substr(0, most_path_bytes); }
    }
    for (std::size_t i = 0; i < canaries.size(); ++i) {
      if (search.hits()[i].count > 0) { read.found.push_back(canaries[i].name); }
    }
    reads.push_back(std::move(read));
  }
  return reads;
}

namespace {

using std::chrono::milliseconds;
using Deadline = std::chrono::steady_clock::time_point;

/// The first letter of an answer says what follows. A pipe takes an answer in one piece.
constexpr char page_follows = 'p', refusal_follows = 'r', failure_follows = 'f';
constexpr std::size_t most_answer_bytes = 2 * LockedPage::size;

std::string answer_of(const std::function<PageRead()>& read) {
  try {
    const auto page = read();
    return page.refused.empty() ? page_follows + page.bytes : refusal_follows + page.refused;
  } catch (const std::exception& error) { return failure_follows + std::string(error.what()); }
}

/// Without our streams: who reads them waits for their end, and this child may be held by a driver.
[[noreturn]] void answer_and_end(int to, const std::function<PageRead()>& read) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) { ::dup2(nothing, stream); }
  const auto answer = answer_of(read).substr(0, most_answer_bytes);
  ::_exit(::write(to, answer.data(), answer.size()) == static_cast<ssize_t>(answer.size()) ? 0 : 1);
}

milliseconds left_until(Deadline end) {
  return std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
}

/// All that comes until the child closes its end; nothing where that takes longer.
std::optional<std::string> answer_from(int from, Deadline end) {
  std::string answer;
  std::array<char, LockedPage::size> piece{};
  while (answer.size() <= most_answer_bytes && becomes_readable(from, left_until(end))) {
    const ssize_t got = ::read(from, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) { continue; }
    if (got <= 0) { return answer; }
    answer.append(piece.data(), static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

/// How it ended. A driver may hold it longer than its answer: then it is told to end and left behind.
int status_of(pid_t child, Deadline end) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= end) {
      ::kill(child, SIGKILL);
      return 0;
    }
    std::this_thread::sleep_for(milliseconds{1});
  }
  return status;
}

PageRead page_of(const std::string& operation, const std::string& answer, int status) {
  if (answer.empty()) {
    throw Error(operation, ErrorCode::io,
                WIFSIGNALED(status) ? fmt::format("signal {} ended the child that reads", WTERMSIG(status))
                                    : "the child that reads ended without an answer");
  }
  auto text = answer.substr(1);
  if (answer[0] == page_follows) { return {std::move(text), ""}; }
  if (answer[0] == refusal_follows) { return {"", std::move(text)}; }
  throw Error(operation, ErrorCode::io, std::move(text));
}

}  // namespace

PageRead read_in_child(const std::string& operation, milliseconds limit, const std::string& hang,
                       const std::function<PageRead()>& read) {
  const auto end = std::chrono::steady_clock::now() + limit;
  auto [from, to] = make_pipe();
  const pid_t child = ::fork();
  if (child < 0) { throw errno_error(operation, errno); }
  if (child == 0) { answer_and_end(to.get(), read); }
  to.reset();
  const auto answer = answer_from(from.get(), end);
  if (!answer) {
    ::kill(child, SIGKILL);
    throw Error(operation, ErrorCode::timeout, hang);
  }
  return page_of(operation, *answer, status_of(child, end));
}

namespace {

namespace fs = std::filesystem;

constexpr const char* engine_functions = "sys/bus/pci/devices";

std::string value_of(const fs::path& file) {
  return std::string(trim(read_file(file).value_or("")));
}

bool is_gpu(const fs::path& root, const fs::path& function) {
  return is_nvidia(root, function.filename()) && value_of(function / "class").starts_with("0x03");
}

/// Memory regions of this node's devices, those of NVIDIA's left out: they are windows of the driver's.
std::vector<MemoryRegion> regions_of_node(const fs::path& root) {
  std::vector<MemoryRegion> all;
  for (const auto& function : entries_of(root / engine_functions)) {
    if (is_nvidia(root, function.filename())) { continue; }
    const auto regions = memory_regions(function);
    all.insert(all.end(), regions.begin(), regions.end());
  }
  return all;
}

}  // namespace

std::unique_ptr<DmaEngine> find_engine(const fs::path& root, const LockedPage& own, const EngineMaker& others,
                                       const BusAddress& bus_address) {
  for (const auto& function : entries_of(root / engine_functions)) {
    if (is_gpu(root, function)) {
      return gpu_engine(function.filename(), {&own, bus_address(own), regions_of_node(root)});
    }
    if (auto engine = others ? others(function, bus_address) : nullptr) { return engine; }
  }
  return nullptr;
}

}  // namespace virtrain::canary
