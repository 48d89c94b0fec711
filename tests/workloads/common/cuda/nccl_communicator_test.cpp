#include "workloads/common/cuda/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using virtrain::test::Contains;

namespace {

/// What NCCL answers to the next questions for the state of a call; the last answer stays.
struct Nccl {
  std::vector<ncclResult_t> states{ncclSuccess};
  ncclResult_t asking = ncclSuccess;
  std::size_t asked = 0;
  int aborted = 0;
  int blocking = -1;
  ncclResult_t joined = ncclSuccess;  ///< of a call that blocks
  std::string id;
};
Nccl nccl;
ncclComm_t const some_communicator = reinterpret_cast<ncclComm_t>(&nccl);

NcclLibrary played() {
  nccl = {};
  NcclLibrary library;
  library.get_version = [](int* version) {
    *version = 22803;
    return ncclSuccess;
  };
  library.get_unique_id = [](ncclUniqueId* id) {
    std::strcpy(id->internal, "rank 0's");
    return ncclSuccess;
  };
  library.init_rank = [](ncclComm_t* communicator, int, ncclUniqueId id, int, ncclConfig_t* config) {
    *communicator = some_communicator;
    nccl.blocking = config->blocking;
    nccl.id = static_cast<const char*>(id.internal);
    return config->blocking == 0 ? ncclInProgress : nccl.joined;
  };
  library.abort = [](ncclComm_t communicator) {
    CHECK(communicator == some_communicator);
    ++nccl.aborted;
    return ncclSuccess;
  };
  library.async_error = [](ncclComm_t, ncclResult_t* state) {
    *state = nccl.states[std::min(nccl.asked++, nccl.states.size() - 1)];
    return nccl.asking;
  };
  library.error_string = [](ncclResult_t result) { return result == ncclRemoteError ? "remote" : "other"; };
  library.last_error = [](ncclComm_t) { return "the last words"; };
  return library;
}

void keep(std::span<std::byte> /*id*/) {}

}  // namespace

TEST_CASE("ranks join without blocking, under rank 0's id") {
  const NcclLibrary library = played();
  CHECK(library.version() == "2.28.3");
  std::vector<std::byte> sent;
  {
    const NcclCommunicator first(library, 0, 2, [&](auto id) { sent.assign(id.begin(), id.end()); });
  }
  CHECK(sent.size() == NCCL_UNIQUE_ID_BYTES);
  CHECK(nccl.aborted == 1);
  nccl.id.clear();
  const NcclCommunicator second(library, 1, 2,
                                [&](auto id) { std::copy(sent.begin(), sent.end(), id.begin()); });
  CHECK(nccl.id == "rank 0's");
  CHECK(nccl.blocking == 0);
}

TEST_CASE("calls that block are through when they return: nobody asks for their state") {
  const NcclLibrary library = played();
  {
    const NcclCommunicator communicator(library, 0, 2, keep, NcclCalls::blocking);
    CHECK(nccl.blocking == 1);
    communicator.settle("add up", ncclSuccess);
    CHECK(nccl.asked == 0);
    nccl.states = {ncclRemoteError};
    CHECK_THROWS_WITH(communicator.check("add up"), Contains("remote"));
  }
  CHECK(nccl.aborted == 1);
  nccl.joined = ncclRemoteError;
  CHECK_THROWS_WITH(NcclCommunicator(library, 0, 2, keep, NcclCalls::blocking),
                    Contains("join the other GPUs") && Contains("remote"));
  CHECK(nccl.aborted == 2);
}

TEST_CASE("a call in progress is awaited") {
  const NcclLibrary library = played();
  nccl.states = {ncclInProgress, ncclInProgress, ncclSuccess};
  const NcclCommunicator communicator(library, 0, 1, keep);
  CHECK(nccl.asked == 3);
  communicator.settle("add up", ncclSuccess);
  CHECK(nccl.asked == 3);  // it was through
  nccl.asked = 0;
  communicator.settle("add up", ncclInProgress);
  CHECK(nccl.asked == 3);
}

TEST_CASE("a lost peer is an error in NCCL's words, and the communicator is aborted once") {
  const NcclLibrary library = played();
  nccl.states = {ncclInProgress, ncclRemoteError};
  CHECK_THROWS_WITH(NcclCommunicator(library, 0, 2, keep),
                    Contains("join the other GPUs") && Contains("remote") && Contains("the last words"));
  CHECK(nccl.aborted == 1);
  nccl.states = {ncclSuccess};
  {
    const NcclCommunicator communicator(library, 0, 2, keep);
    communicator.check("add up");
    nccl.states = {ncclInProgress};
    communicator.check("add up");  // under way is no error
    nccl.states = {ncclRemoteError};
    CHECK_THROWS_WITH(communicator.check("add up"), Contains("add up") && Contains("remote"));
    CHECK_THROWS_WITH(communicator.settle("add up", ncclInvalidArgument), Contains("other"));
    nccl.states = {ncclSuccess};
    nccl.asking = ncclSystemError;
    CHECK_THROWS_WITH(communicator.check("add up"), Contains("other"));
  }
  CHECK(nccl.aborted == 2);
}
