#include "harness/hosts/named_host.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/hosts/at_once.h"
#include "harness/hosts/host_client.h"
#include "harness/scenario/decode/hosts.h"

namespace virtrain::harness {
namespace {

namespace fs = std::filesystem;

constexpr const char* program_name = "virtrain-host";
constexpr std::size_t longest_reason = 2500;

/// A host that answers, or the Error in which its start ended.
struct Attempt {
  std::vector<std::string> words;  ///< of the launcher
  std::unique_ptr<vmctl::Host> host = {};
  std::optional<Error> error = {};
};

Attempt attempt(std::vector<std::string> words, const ListedHost& listed) {
  Attempt tried{std::move(words)};
  try {
    auto process = start_launcher(tried.words, listed.name);
    process.allocated = listed.allocated;
    tried.host = host_client(std::move(process));
  } catch (const Error& error) { tried.error = error; }
  return tried;
}

/// The folder of that host in which the launcher's words have virtrain-host; empty: it is found elsewhere.
std::string remote_folder(const std::vector<std::string>& words) {
  for (const auto& word : words) {
    const fs::path path(word);
    if (path.is_absolute() && path.filename() == program_name) { return path.parent_path().string(); }
  }
  return "";
}

/// The way to get this build's programs there.
std::string how_to_install(const std::string& name, const std::vector<std::string>& words) {
  const auto ours = sibling_program(program_name).parent_path();
  const auto theirs = remote_folder(words);
  if (ours.parent_path().filename() == "libexec" || theirs.empty()) {
    return "install this machine's packages of virtrain there";
  }
  return fmt::format("copy this build there: ssh {0} mkdir -p {2} && rsync -a {1}/virtrain-* {0}:{2}/", name,
                     ours.string(), theirs);
}

/// The answer of one host that is refused or left out, and the user's next step.
std::string reason(const std::string& name, const std::vector<std::string>& words, const Error& error) {
  const bool is_other_build = error.code() == ErrorCode::host_unable;
  const auto came_back = excerpt(error.message(), longest_reason);
  if (is_other_build) { return fmt::format("{}: {}; {}", name, came_back, how_to_install(name, words)); }
  // As shells, and env, sudo and srun, say that there is no such program.
  const bool is_absent = came_back.ends_with("(exit status 127)");
  return fmt::format("{}: {}; tried: {}{}", name, came_back, excerpt(join(words, " "), longest_reason),
                     is_absent ? "; " + how_to_install(name, words) : "");
}

}  // namespace

std::vector<std::string> launch_words(const std::vector<std::string>& launcher, const std::string& host,
                                      const HostRequest& request) {
  constexpr std::string_view placeholder = host_placeholder;
  std::vector<std::string> words;
  for (auto word : launcher) {
    if (word == program_name) { word = sibling_program(program_name).string(); }
    for (auto at = word.find(placeholder); at != std::string::npos;
         at = word.find(placeholder, at + host.size())) {
      word.replace(at, placeholder.size(), host);
    }
    words.push_back(std::move(word));
  }
  const auto options = host_options(request);
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::vector<NamedHost> open_hosts(const HostList& list, const HostRequest& request, bool skip_unreachable) {
  if (list.launcher.empty() || request.root != "/") {
    throw Error("start virtrain-host on several hosts", ErrorCode::usage,
                "a launcher starts it on hosts that are there, not on recorded ones");
  }
  auto attempts = at_once(list.hosts, [&](const ListedHost& host) {
    return attempt(launch_words(list.launcher, host.name, request), host);
  });
  std::vector<NamedHost> opened;
  std::vector<std::string> refused, unreachable;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    auto& tried = attempts[i];
    const auto& listed = list.hosts[i];
    if (tried.host) {
      opened.push_back({listed.name, listed.network, std::move(tried.host)});
      continue;
    }
    const auto why = reason(listed.name, tried.words, *tried.error);
    (tried.error->code() == ErrorCode::host_unable ? refused : unreachable).push_back(why);
  }
  const bool skips = skip_unreachable && refused.empty() && !opened.empty();
  if (unreachable.empty() && refused.empty()) { return opened; }
  if (skips) {
    for (const auto& why : unreachable) { log::warning("left out, for it does not answer: " + why); }
    return opened;
  }
  const bool may_skip = refused.empty() && !opened.empty();
  refused.insert(refused.end(), unreachable.begin(), unreachable.end());
  throw Error(fmt::format("start virtrain-host on {}", counted(list.hosts.size(), "host")),
              ErrorCode::host_unable,
              join(refused, "\n") + (may_skip ? "\n(--skip-unreachable goes on with the others)" : ""));
}

}  // namespace virtrain::harness
