#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "common/error.h"
#include "common/text/text.h"
#include "workloads/common/peers/peers.h"

namespace virtrain {
namespace {

/// "Open MPI 4.1.4".
std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string name = split(text.data(), ',').front();  // "Open MPI v4.1.4, package: ..."
  if (const std::size_t v = name.find(" v"); v != std::string::npos) { name.erase(v + 1, 1); }
  return name;
}

/// MPI's own error handler ends the job with its words, so no status is looked at here.
class MpiPeers : public Peers {
 public:
  MpiPeers() {
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
      throw Error("MPI_Init_thread", ErrorCode::io, "failed; MPI's message is on stderr");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiPeers() override { MPI_Finalize(); }
  MpiPeers(const MpiPeers&) = delete;
  MpiPeers& operator=(const MpiPeers&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::optional<std::string> library() const override { return mpi_library(); }

  std::vector<std::string> gather(const std::string& text) override {
    const auto length = static_cast<std::size_t>(largest(static_cast<double>(text.size())));
    std::string own = text;
    own.resize(length, '\0');
    std::string all(length * static_cast<std::size_t>(size_), '\0');
    MPI_Allgather(own.data(), static_cast<int>(length), MPI_CHAR, all.data(), static_cast<int>(length),
                  MPI_CHAR, MPI_COMM_WORLD);
    std::vector<std::string> texts;
    texts.reserve(static_cast<std::size_t>(size_));
    for (std::size_t at = 0; at < all.size(); at += length) {
      texts.emplace_back(all.substr(at, length).c_str());
    }
    return texts;
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  void all_reduce(std::span<const float> send, std::span<float> receive) override {
    const bool in_place = send.data() == receive.data();
    MPI_Allreduce(in_place ? MPI_IN_PLACE : send.data(), receive.data(), static_cast<int>(receive.size()),
                  MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

  void all_gather(std::span<const float> send, std::span<float> receive) override {
    const bool in_place = send.data() >= receive.data() && send.data() < receive.data() + receive.size();
    const auto count = static_cast<int>(send.size());
    MPI_Allgather(in_place ? MPI_IN_PLACE : send.data(), count, MPI_FLOAT, receive.data(), count, MPI_FLOAT,
                  MPI_COMM_WORLD);
  }

  void broadcast(std::span<float> values, int root) override {
    MPI_Bcast(values.data(), static_cast<int>(values.size()), MPI_FLOAT, root, MPI_COMM_WORLD);
  }

  void broadcast(std::span<std::byte> bytes) override {
    MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  }

  void start_all_reduce(std::span<float> values) override {
    if (size_ == 1) { return; }
    MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                   MPI_COMM_WORLD, &started_.emplace_back());
  }

  bool progress() override {
    if (started_.empty()) { return true; }
    int done = 0;
    MPI_Testall(static_cast<int>(started_.size()), started_.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0) { started_.clear(); }
    return done != 0;
  }

  void wait_all() override {
    MPI_Waitall(static_cast<int>(started_.size()), started_.data(), MPI_STATUSES_IGNORE);
    started_.clear();
  }

  /// The naps grow: a word that is due in each step comes at once, one that a user types may take hours.
  int announce(int word) override {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
    constexpr useconds_t longest_nap_us = 1000;
    useconds_t nap_us = 10;
    int done = 0;
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
      usleep(nap_us);
      nap_us = std::min(2 * nap_us, longest_nap_us);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);  // at once: it is done
    return word;
  }

  void round_trip(std::span<unsigned char> message) override {
    const auto count = static_cast<int>(message.size());
    constexpr int tag = 0;
    if (rank_ == 0) {
      MPI_Send(message.data(), count, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
      MPI_Recv(message.data(), count, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank_ == 1) {
      MPI_Recv(message.data(), count, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (unsigned char& byte : message) { ++byte; }
      MPI_Send(message.data(), count, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
    }
  }

  double largest(double value) override {
    double all = value;
    MPI_Allreduce(&value, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
  }

  double total(double value) override {
    double all = value;
    MPI_Allreduce(&value, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
  }

  std::int64_t total(std::int64_t value) override {
    std::int64_t all = value;
    MPI_Allreduce(&value, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
  }

 private:
  void abort_others(int status) override { MPI_Abort(MPI_COMM_WORLD, status); }

  int rank_ = 0;
  int size_ = 1;
  std::vector<MPI_Request> started_;
};

}  // namespace

std::unique_ptr<Peers> join_peers() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) { return std::make_unique<MpiPeers>(); }
  refuse_other_launchers();
  return std::make_unique<LonePeer>();
}

Error needs_ranks(const std::string& what, const std::string& command) {
  return Error(what, ErrorCode::usage, "it needs at least two ranks (mpirun -np 2 " + command + ")");
}

}  // namespace virtrain
