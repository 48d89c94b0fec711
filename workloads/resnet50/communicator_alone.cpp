#include "common/error.h"
#include "workloads/resnet50/communicator.h"

#include <cstdlib>

// Chosen where the workloads are built without MPI: one rank.
namespace virtrain::resnet50 {

struct Communicator::Requests {};

Communicator::Communicator() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return;
  throw Error(
      "join the other ranks", ErrorCode::host_unable,
      "this executable was built without MPI and runs on one rank only (build it with -DVIRTRAIN_MPI=ON)");
}

Communicator::~Communicator() = default;

std::optional<std::string> Communicator::library() const {
  return std::nullopt;
}

std::vector<std::uint64_t> Communicator::gather(std::uint64_t value) {
  return {value};
}

double Communicator::sum(double value) {
  return value;
}

int Communicator::broadcast(int value) {
  return value;
}

void Communicator::broadcast(std::span<std::byte>) {}

void Communicator::start_sum(std::span<float>) {}

bool Communicator::progress() {
  return true;
}

void Communicator::wait_all() {}

void Communicator::abort(int status) {
  std::_Exit(status);
}

}  // namespace virtrain::resnet50
