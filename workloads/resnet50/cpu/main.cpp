#include "common/error.h"
#include "workloads/resnet50/cpu/communicator.h"
#include "workloads/resnet50/cpu/device.h"
#include "workloads/resnet50/cpu/trainer.h"
#include "workloads/resnet50/flags.h"
#include "workloads/resnet50/protocol.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace {

using namespace virtrain;
using namespace virtrain::resnet50;

constexpr const char* executable = "virtrain-resnet50-cpu";

/// Our rank as mpirun's environment says it, for errors before MPI runs.
int environment_rank() {
  const char* const text = std::getenv("OMPI_COMM_WORLD_RANK");
  return text == nullptr ? 0 : std::atoi(text);
}

void report_failure(const std::string& operation, const std::string& message) {
  std::fprintf(stderr, "%s: %s: %s\n", executable, operation.c_str(), message.c_str());
  constexpr std::size_t longest_text = 1500;  // bytes; with JSON's escapes the record still fits
  write_record(
      "error", environment_rank(),
      {{"operation", operation.substr(0, longest_text / 4)}, {"message", message.substr(0, longest_text)}});
}

int usage_or_failure(const Error& error) {
  return error.code() == ErrorCode::usage ? 2 : 1;
}

int train_and_report(const Flags& flags) {
  cpu::Communicator communicator;
  try {
    cpu::train(flags, communicator);
    return 0;
  } catch (const Error& error) {
    report_failure(error.operation(), error.message());
    communicator.abort(usage_or_failure(error));
  } catch (const std::exception& error) {
    report_failure("train", error.what());
    communicator.abort(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const ParsedFlags parsed = parse_flags(argc, argv, {executable, "CPU", cpu::possible_precisions()});
    if (parsed.help) {
      std::fputs(parsed.help->c_str(), stdout);
      return 0;
    }
    return train_and_report(parsed.flags);
  } catch (const Error& error) {
    report_failure(error.operation(), error.message());
    return usage_or_failure(error);
  } catch (const std::exception& error) {
    report_failure("start", error.what());
    return 1;
  }
}
