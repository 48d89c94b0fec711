#include "vmctl/hypervisor/qemu_log.h"

#include <filesystem>
#include <vector>

#include "common/files/reading.h"
#include "common/text/text.h"
#include "vmctl/process/paths.h"

namespace virtrain::vmctl {
namespace {
/// A start's command line has some 10,000; a guest can have QEMU complain for ever.
constexpr std::size_t most_log_bytes = 256U << 10;
}  // namespace

std::string qemu_last_words(std::string_view log) {
  constexpr std::size_t lines = 5;
  std::vector<std::string> words;
  bool in_command = false;
  for (const auto& line : split(log, '\n')) {
    if (line.find(": starting up libvirt version: ") != std::string::npos) {
      words.clear();
      in_command = true;
    } else if (in_command) {
      in_command = line.ends_with('\\');
    } else if (!trim(line).empty() && line.find(" is tainted: ") == std::string::npos) {
      words.push_back(line);
    }
  }
  if (words.size() > lines) { words.erase(words.begin(), words.end() - lines); }
  return join(words, "\n");
}

std::string read_qemu_last_words(const std::string& domain, const std::filesystem::path& cache) {
  // Logs of libvirt's system daemon, and of a user's own.
  const auto own = cache.empty() ? user_cache_dir() : cache;
  const std::filesystem::path folders[] = {"/var/log/libvirt/qemu", own / "libvirt/qemu/log"};
  for (const auto& folder : folders) {
    if (const auto log = read_tail(folder / (domain + ".log"), most_log_bytes)) {
      return qemu_last_words(*log);
    }
  }
  return {};
}

}  // namespace virtrain::vmctl
