#include "workloads/resnet50/communicator.h"

#include "common/error.h"
#include "workloads/common/mpi_library.h"
#include "workloads/common/program.h"

#include <mpi.h>
#include <unistd.h>

#include <cstdlib>

namespace virtrain::resnet50 {

struct Communicator::Requests {
  std::vector<MPI_Request> open;
};

Communicator::Communicator() : requests_(std::make_unique<Requests>()) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return;
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    throw Error("MPI_Init_thread", ErrorCode::io, "failed; MPI's words are on stderr");
  }
  mpi_ = true;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  const LocalRank local = environment_local_rank();
  local_rank_ = local.rank;
  local_size_ = local.size;
}

Communicator::~Communicator() {
  if (mpi_) MPI_Finalize();
}

std::optional<std::string> Communicator::library() const {
  if (!mpi_) return std::nullopt;
  return mpi_library();
}

std::vector<std::uint64_t> Communicator::gather(std::uint64_t value) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size_), value);
  if (mpi_) MPI_Allgather(&value, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
  return all;
}

double Communicator::sum(double value) {
  double total = value;
  if (mpi_) MPI_Allreduce(&value, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return total;
}

int Communicator::broadcast(int value) {
  if (!mpi_) return value;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) usleep(1000);
  return value;
}

void Communicator::broadcast(std::span<std::byte> bytes) {
  if (mpi_) MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
}

void Communicator::start_sum(std::span<float> values) {
  if (!mpi_ || size_ == 1) return;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                 MPI_COMM_WORLD, &request);
  requests_->open.push_back(request);
}

bool Communicator::progress() {
  if (requests_->open.empty()) return true;
  int done = 0;
  MPI_Testall(static_cast<int>(requests_->open.size()), requests_->open.data(), &done, MPI_STATUSES_IGNORE);
  if (done != 0) requests_->open.clear();
  return done != 0;
}

void Communicator::wait_all() {
  if (requests_->open.empty()) return;
  MPI_Waitall(static_cast<int>(requests_->open.size()), requests_->open.data(), MPI_STATUSES_IGNORE);
  requests_->open.clear();
}

void Communicator::abort(int status) {
  if (mpi_) MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace virtrain::resnet50
