#include "common/error.h"
#include "workloads/common/program.h"
#include "workloads/resnet50/cpu/communicator.h"
#include "workloads/resnet50/cpu/device.h"
#include "workloads/resnet50/cpu/trainer.h"
#include "workloads/resnet50/flags.h"

#include <cstdio>
#include <exception>

namespace {

using namespace virtrain;
using namespace virtrain::resnet50;

constexpr const char* executable = "virtrain-resnet50-cpu";

int train_and_report(const Flags& flags) {
  cpu::Communicator communicator;
  try {
    cpu::train(flags, communicator);
    return 0;
  } catch (const Error& error) {
    report_failure(executable, error.operation(), error.message());
    communicator.abort(usage_or_failure(error));
  } catch (const std::exception& error) {
    report_failure(executable, "train", error.what());
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
    report_failure(executable, error.operation(), error.message());
    return usage_or_failure(error);
  } catch (const std::exception& error) {
    report_failure(executable, "start", error.what());
    return 1;
  }
}
