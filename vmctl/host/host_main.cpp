// virtrain-host: does on this host what a coordinator asks for on standard input, in frames, and ends when
// that does. What needs root runs here and nowhere else.

#include <fcntl.h>
#include <fmt/format.h>
#include <getopt.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/version.h"
#include "vmctl/api/host_mode.h"
#include "vmctl/host/host_server.h"
#include "vmctl/host/local_host.h"
#include "vmctl/host/relay.h"
#include "vmctl/process/calling_user.h"
#include "vmctl/process/containment.h"

namespace {

using namespace virtrain;
using namespace virtrain::vmctl;

constexpr const char* help =
    "virtrain-host: what virtrain starts on a host to make nodes there\n\n"
    "usage: virtrain-host [--mode MODE] [--with-vms] [--root DIR] [--log-level LEVEL]\n"
    "       virtrain-host --via-group-socket\n\n"
    "  --mode MODE        what the run may do to this host: system (default), namespaces or session\n"
    "  --with-vms         the run has virtual machines\n"
    "  --root DIR         a recorded host (virtrain doctor --record), of which only what is there can be "
    "asked\n"
    "  --log-level LEVEL  least level of the lines that are passed on: debug, info (default), warning or "
    "error\n"
    "  --via-group-socket pass everything on to the root one that systemd starts for members of group "
    "virtrain\n"
    "                     (for a launcher that reaches this host as a user)\n"
    "  --version          print the version\n\n"
    "It speaks frames on standard input and output: start virtrain, which starts it.\n";

struct Options {
  std::optional<HostMode> mode = {};
  bool with_vms = false;
  bool is_relay = false;
  std::filesystem::path root = "/";
  log::Level level = log::Level::info;
};

template <typename E>
E word(const char* option, const char* said) {
  if (const auto value = enum_of<E>(said)) { return *value; }
  throw Error("read the command line", ErrorCode::usage,
              fmt::format("--{} {} is not allowed (allowed: {})", option, excerpt(said, 64), enum_list<E>()));
}

Options read_options(int argc, char** argv) {
  static const option known[] = {
      {"mode", required_argument, nullptr, 'm'},       {"with-vms", no_argument, nullptr, 'v'},
      {"root", required_argument, nullptr, 'r'},       {"log-level", required_argument, nullptr, 'l'},
      {"via-group-socket", no_argument, nullptr, 'g'}, {"help", no_argument, nullptr, 'h'},
      {"version", no_argument, nullptr, 'V'},          {nullptr, 0, nullptr, 0}};
  Options options;
  for (int found = 0; (found = ::getopt_long(argc, argv, "h", known, nullptr)) != -1;) {
    switch (found) {
      case 'm':
        options.mode = word<HostMode>("mode", optarg);
        break;
      case 'v':
        options.with_vms = true;
        break;
      case 'r':
        options.root = optarg;
        break;
      case 'l':
        options.level = word<log::Level>("log-level", optarg);
        break;
      case 'g':
        options.is_relay = true;
        break;
      case 'h':
        std::fputs(help, stdout);
        std::exit(0);
      case 'V':
        std::puts(virtrain_version);
        std::exit(0);
      default:
        throw Error("read the command line", ErrorCode::usage, "see virtrain-host --help");
    }
  }
  if (optind < argc) {
    throw Error("read the command line", ErrorCode::usage, excerpt(argv[optind], 64) + " is not an option");
  }
  if (::isatty(STDIN_FILENO) == 1) {
    throw Error("start virtrain-host", ErrorCode::usage,
                "standard input is a terminal, and it speaks frames (start virtrain, which starts it)");
  }
  if (options.is_relay &&
      (options.root != "/" || options.mode.value_or(HostMode::system) != HostMode::system)) {
    throw Error("read the command line", ErrorCode::usage,
                std::string(group_socket) + " serves mode system of this host only");
  }
  return options;
}

/// Before there are threads.
void enter_mode(const Options& options) {
  if (options.mode == HostMode::namespaces) { return continue_contained(Containment::user_namespace); }
  if (options.mode == HostMode::session && options.with_vms) {
    continue_contained(Containment::processes_only);
  }
}

void serve(const Options& options) {
  // Nothing else may write to where the frames go.
  auto in = duplicate(STDIN_FILENO), out = duplicate(STDOUT_FILENO);
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    throw errno_error("take standard input and output", errno);
  }
  LocalHost host(options.root);
  HostServer server(host, std::move(in), std::move(out));
  log::pass_on([&server](log::Level level, std::string_view message, const nlohmann::json& fields) {
    server.log(level, message, fields);
  });
  server.heed_signals();
  server.serve();
  log::pass_on({});  // nobody hears it there any more
  server.undo();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = read_options(argc, argv);
    log::configure(log::Format::text, options.level);
    if (options.is_relay) {
      ignore_broken_pipes();
      relay_to_group_socket(STDIN_FILENO, STDOUT_FILENO);
    }
    coordinator_user();  // while standard input is what it was
    if (works_for_another() && options.root != "/") {
      throw Error(
          "read a recorded host", ErrorCode::usage,
          fmt::format("root reads none for user {}: --root needs no privileges", coordinator_user().user));
    }
    keep_to_cores_of_caller();
    take_own_surroundings();
    enter_mode(options);
    serve(options);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "virtrain-host: %s\n", printable(error.what()).c_str());
    return exit_status(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "virtrain-host: %s\n", printable(error.what()).c_str());
    return exit_status(ErrorCode::io);
  }
}
