#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "workloads/common/peers/peers.h"

namespace virtrain::test {

/// What the threads of one job share.
struct Job {
  explicit Job(int ranks)
      : size(ranks), meeting(ranks), sent(static_cast<std::size_t>(ranks)), numbers(sent.size()) {}
  int size;
  std::barrier<> meeting;
  std::vector<std::vector<float>> sent;
  std::vector<double> numbers;
  std::vector<unsigned char> message;
  /// Called with each rank's output before that rank sees it: where a test plants its fault.
  std::function<void(int rank, std::span<float> output)> fault = [](int, std::span<float>) {};
};

/// Ranks that are threads of one process.
class ThreadPeers : public Peers {
 public:
  ThreadPeers(Job& job, int rank) : job_(job), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return job_.size; }
  std::optional<std::string> library() const override { return "threads"; }
  std::vector<std::string> gather(const std::string& text) override {
    return std::vector<std::string>(static_cast<std::size_t>(job_.size), text);
  }
  void barrier() override { job_.meeting.arrive_and_wait(); }

  void all_reduce(std::span<const float> send, std::span<float> receive) override {
    put(send);
    for (std::size_t i = 0; i < receive.size(); ++i) {
      float sum = 0;
      for (const auto& part : job_.sent) { sum += part[i]; }
      receive[i] = sum;
    }
    finish(receive);
  }
  void all_gather(std::span<const float> send, std::span<float> receive) override {
    put(send);
    for (std::size_t i = 0; i < receive.size(); ++i) {
      receive[i] = job_.sent[i / send.size()][i % send.size()];
    }
    finish(receive);
  }
  void broadcast(std::span<float> values, int root) override {
    put(values);
    const std::vector<float>& from = job_.sent[static_cast<std::size_t>(root)];
    std::copy(from.begin(), from.end(), values.begin());
    finish(values);
  }
  void broadcast(std::span<std::byte> bytes) override {
    if (rank_ == 0) {
      job_.message.assign(reinterpret_cast<unsigned char*>(bytes.data()),
                          reinterpret_cast<unsigned char*>(bytes.data()) + bytes.size());
    }
    barrier();
    std::memcpy(bytes.data(), job_.message.data(), bytes.size());
    barrier();
  }
  void start_all_reduce(std::span<float> values) override { all_reduce(values, values); }
  bool progress() override { return true; }
  void wait_all() override {}
  int announce(int word) override {
    broadcast(std::as_writable_bytes(std::span(&word, 1)));
    return word;
  }
  void round_trip(std::span<unsigned char> message) override {
    if (rank_ == 0) { job_.message.assign(message.begin(), message.end()); }
    barrier();
    if (rank_ == 1) {
      for (unsigned char& byte : job_.message) { byte = static_cast<unsigned char>(byte + answer_plus); }
    }
    barrier();
    if (rank_ == 0) { std::copy(job_.message.begin(), job_.message.end(), message.begin()); }
    barrier();
  }
  double largest(double value) override {
    const std::vector<double> all = gather_numbers(value);
    return *std::max_element(all.begin(), all.end());
  }
  double total(double value) override {
    const std::vector<double> all = gather_numbers(value);
    return std::accumulate(all.begin(), all.end(), 0.0);
  }
  std::int64_t total(std::int64_t value) override {
    return static_cast<std::int64_t>(total(static_cast<double>(value)));
  }

  int answer_plus = 1;  ///< what rank 1 adds to each byte: anything but 1 is a fault

 private:
  std::vector<double> gather_numbers(double value) {
    job_.numbers[static_cast<std::size_t>(rank_)] = value;
    barrier();
    std::vector<double> all = job_.numbers;
    barrier();
    return all;
  }
  void put(std::span<const float> send) {
    job_.sent[static_cast<std::size_t>(rank_)].assign(send.begin(), send.end());
    barrier();
  }
  void finish(std::span<float> output) {
    job_.fault(rank_, output);
    barrier();
  }

  Job& job_;
  int rank_;
};

/// Runs `body` on every rank and returns rank 0's result.
template <typename Result>
Result on_all(Job& job, const std::function<Result(Peers&)>& body) {
  std::vector<Result> results(static_cast<std::size_t>(job.size));
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (int rank = 0; rank < job.size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadPeers peers(job, rank);
      results[static_cast<std::size_t>(rank)] = body(peers);
    });
  }
  for (std::thread& thread : threads) { thread.join(); }
  return results.front();
}

}  // namespace virtrain::test
