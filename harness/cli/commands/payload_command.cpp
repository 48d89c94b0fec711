#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <fmt/ostream.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "harness/cli/commands.h"
#include "harness/cli/make_payload.h"
#include "harness/experiment/stop_signals.h"

namespace virtrain::harness {

void add_payload_command(Cli& cli) {
  struct Arguments {
    std::filesystem::path source, output;
  };
  auto* const verb =
      cli.app.add_subcommand("payload", "Make the environment of a job of your own: one squashfs");
  verb->require_subcommand(1);
  auto* const make = verb->add_subcommand(
      "make", "Pack a folder, a virtual environment, an Apptainer image or a root file system");
  const auto arguments = std::make_shared<Arguments>();
  make->add_option(
          "source", arguments->source,
          "Root file system, folder with programs, virtual environment of Python, .sif of Apptainer or "
          ".sqsh of enroot")
      ->required();
  make->add_option("-o,--output", arguments->output, "File to make, which workload.payload names")
      ->required();
  make->callback([&cli, arguments] {
    boost::asio::io_context io;
    boost::asio::signal_set signals(io);
    add_stop_signals(signals);
    int stopped_by = 0;
    signals.async_wait([&stopped_by](const boost::system::error_code& error, int number) {
      if (!error) { stopped_by = number; }
    });
    const Cancelled cancelled = [&io, &stopped_by] {
      io.poll();
      return stopped_by != 0;
    };
    MadePayload made;
    try {
      made = make_payload(arguments->source, arguments->output, cancelled);
    } catch (const Error&) {
      if (stopped_by == 0) { throw; }
      cli.exit_status = 128 + stopped_by;
      return;
    }
    fmt::print(std::cout, "{}: {}, made from: {}\nsha256 {}\n", printable(arguments->output.string()),
               format_size(made.bytes), made.kind, made.sha256);
    cli.exit_status = 0;
  });
}

}  // namespace virtrain::harness
