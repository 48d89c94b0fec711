#include "harness/evidence/rank_output.h"

#include <fmt/format.h>

#include <utility>

#include "common/error.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

/// Longest tag considered: "[4294967295,4294967295]<stddiag>: ".
constexpr std::size_t max_tag_bytes = 40;

/// Memory that an unfinished line costs beside its text, roughly.
constexpr std::size_t entry_bytes = 100;

struct Tag {
  std::int64_t rank = 0;
  std::size_t bytes = 0;
};
enum class TagSearch { none, incomplete, found };

/// Whether a tag starts at the beginning of `text` (which starts with '[').
std::pair<TagSearch, Tag> match_tag(std::string_view text, std::string_view tag_end) {
  const auto digits = [&](std::size_t from) {
    std::size_t at = from;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') { ++at; }
    return at;
  };
  const auto incomplete = std::pair(TagSearch::incomplete, Tag{});
  const auto none = std::pair(TagSearch::none, Tag{});
  const std::size_t comma = digits(1);
  if (comma == text.size()) { return comma < max_tag_bytes ? incomplete : none; }
  if (comma == 1 || text[comma] != ',') { return none; }
  const std::size_t bracket = digits(comma + 1);
  if (bracket == text.size()) { return bracket < max_tag_bytes ? incomplete : none; }
  if (bracket == comma + 1 || text[bracket] != ']') { return none; }
  const auto rank = parse_integer(text.substr(comma + 1, bracket - comma - 1));
  if (!rank) { return none; }
  const std::string_view rest = text.substr(bracket + 1);
  for (const std::string_view name : {"<stdout>", "<stderr>", "<stddiag>"}) {
    if (name.starts_with(rest)) { return incomplete; }
    if (!rest.starts_with(name)) { continue; }
    const auto end = rest.substr(name.size());
    if (end.starts_with(tag_end)) {
      return {TagSearch::found, {*rank, bracket + 1 + name.size() + tag_end.size()}};
    }
    if (tag_end.starts_with(end)) { return incomplete; }
  }
  return none;
}

/// Ranks whose carriage return is remembered; output may name any number of ranks. Of the others "\r\n" is
/// two ends, the second of an empty line.
constexpr std::size_t most_returned = 4096;

}  // namespace

void RankOutputSplitter::add(std::string_view text) {
  const auto [entry, is_new] = partial_.try_emplace(current_);
  auto& line = entry->second.text;
  entry->second.t_ns = t_ns_;
  if (!text.empty()) { returned_.erase(current_); }
  const auto added = text.substr(0, max_record_bytes + 1 - std::min(line.size(), max_record_bytes + 1));
  line += added;
  held_bytes_ += added.size() + (is_new ? entry_bytes : 0);
  if (held_bytes_ > max_other_output_bytes) {
    throw Error(
        "read the trainer's output", ErrorCode::protocol,
        fmt::format("it wrote more than {} of unfinished lines", format_size(max_other_output_bytes)));
  }
}

void RankOutputSplitter::take_piece(std::string_view piece, bool ends_line,
                                    const std::function<void(RankLine)>& on_line) {
  if (!ends_line || !partial_.contains(current_)) { add(piece); }
  if (!ends_line) { return; }
  RankLine line;
  if (current_ >= 0) { line.rank = current_; }
  line.text = std::move(partial_[current_].text);
  line.t_ns = partial_[current_].t_ns;
  partial_.erase(current_);
  held_bytes_ -= line.text.size() + entry_bytes;
  current_ = -1;
  on_line(std::move(line));
}

void RankOutputSplitter::feed(std::string_view bytes, const std::function<void(RankLine)>& on_line,
                              std::int64_t t_ns) {
  t_ns_ = t_ns;
  pending_.append(bytes);
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const auto special = rest.find_first_of("[\n\r");
    if (special != 0) {
      take_piece(rest.substr(0, special), false, on_line);
      if (special == std::string_view::npos) {
        rest = {};
      } else {
        rest.remove_prefix(special);
      }
      continue;
    }
    if (rest[0] == '\r') {
      // mpirun writes no tag behind it: what follows is the same rank's.
      const auto rank = current_;
      if (partial_.contains(rank)) { take_piece({}, true, on_line); }
      current_ = rank;
      if (returned_.size() < most_returned) { returned_.insert(rank); }
      rest.remove_prefix(1);
      continue;
    }
    if (rest[0] == '\n') {
      if (returned_.erase(current_) > 0) {
        current_ = -1;
      } else {
        take_piece({}, true, on_line);
      }
      rest.remove_prefix(1);
      continue;
    }
    const auto [search, tag] = match_tag(rest, tag_end_);
    if (search == TagSearch::incomplete) { break; }
    if (search == TagSearch::found) {
      current_ = tag.rank;
      rest.remove_prefix(tag.bytes);
    } else {
      take_piece(rest.substr(0, 1), false, on_line);
      rest.remove_prefix(1);
    }
  }
  pending_ = std::string(rest);
}

void RankOutputSplitter::finish(const std::function<void(RankLine)>& on_line) {
  if (!pending_.empty()) { add(std::exchange(pending_, {})); }
  while (!partial_.empty()) {
    current_ = partial_.begin()->first;
    if (partial_.begin()->second.text.empty()) {
      partial_.erase(partial_.begin());
    } else {
      take_piece({}, true, on_line);
    }
  }
}

}  // namespace virtrain::harness
