#include "common/text/canary.h"

#include <algorithm>
#include <random>

namespace virtrain {
namespace {

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";

}  // namespace

Canary make_canary(std::string name) {
  std::random_device device;
  std::uniform_int_distribution<std::size_t> letter(0, letters.size() - 1);
  std::string text(canary_prefix);
  while (text.size() < canary_size) { text += letters[letter(device)]; }
  return {std::move(name), std::move(text)};
}

bool is_canary_text(std::string_view text) {
  return text.size() == canary_size && text.starts_with(canary_prefix) &&
         text.substr(canary_prefix.size()).find_first_not_of(letters) == std::string_view::npos;
}

CanarySearch::CanarySearch(std::vector<Canary> canaries)
    : canaries_(std::move(canaries)), hits_(canaries_.size()) {}

void CanarySearch::restart() {
  std::ranges::fill(hits_, Hits());
  tail_.clear();
  fed_ = 0;
}

void CanarySearch::skip(std::uint64_t bytes) {
  tail_.clear();
  fed_ += bytes;
}

void CanarySearch::look_at(std::string_view bytes, std::uint64_t offset) {
  for (std::size_t i = 0; i < canaries_.size(); ++i) {
    const auto& text = canaries_[i].text;
    for (auto at = bytes.find(text); at != std::string_view::npos; at = bytes.find(text, at + text.size())) {
      auto& hits = hits_[i];
      if (hits.count++ == 0) { hits.first = offset + at; }
      hits.last = offset + at;
    }
  }
}

void CanarySearch::feed(std::string_view bytes) {
  // Bytes across the border of two pieces: fewer of either than a canary has, so that no canary that lies in
  // one piece is counted again.
  constexpr std::size_t most = canary_size - 1;
  if (!tail_.empty()) {
    const auto border = tail_ + std::string(bytes.substr(0, most));
    look_at(border, fed_ - tail_.size());
  }
  look_at(bytes, fed_);
  fed_ += bytes.size();
  tail_ = bytes.size() >= most ? std::string(bytes.substr(bytes.size() - most)) : tail_ + std::string(bytes);
  if (tail_.size() > most) { tail_.erase(0, tail_.size() - most); }
}

}  // namespace virtrain
