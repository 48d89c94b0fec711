#include "harness/hosts/launcher.h"

#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/programs.h"

namespace virtrain::harness {

HostProcess start_host(const HostRequest& request) {
  const auto program = sibling_program("virtrain-host");
  std::vector<std::string> words{program.string(), "--log-level", to_string(log::least_level())};
  if (request.root != "/") {
    words.insert(words.end(), {"--root", std::filesystem::absolute(request.root).string()});
  }
  if (request.mode) { words.insert(words.end(), {"--mode", to_string(*request.mode)}); }
  if (request.with_vms) { words.emplace_back("--with-vms"); }
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) { argv.push_back(word.data()); }
  argv.push_back(nullptr);

  auto [ours, theirs] = make_socketpair();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  HostProcess process{duplicate(ours.get()), std::move(ours)};
  const int failed =
      ::posix_spawn(&process.pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) { throw errno_error("start " + program.string(), failed); }
  return process;
}

}  // namespace virtrain::harness
