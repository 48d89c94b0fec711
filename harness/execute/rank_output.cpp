#include "harness/execute/rank_output.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "common/error.h"
#include "common/text.h"
#include "common/units.h"

namespace virtrain::harness {
namespace {

/// Longest tag considered: "[4294967295,4294967295]<stdout>:".
constexpr std::size_t kMaxTagBytes = 40;

/// What an unfinished line costs beside its text, roughly.
constexpr std::size_t kEntryBytes = 100;

struct Tag {
  std::int64_t rank = 0;
  std::size_t bytes = 0;
};
enum class TagSearch { none, incomplete, found };

/// Whether a tag starts at the beginning of `text` (which starts with '[').
std::pair<TagSearch, Tag> match_tag(std::string_view text) {
  const auto digits = [&](std::size_t from) {
    std::size_t at = from;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at;
  };
  const auto incomplete = std::pair(TagSearch::incomplete, Tag{});
  const auto none = std::pair(TagSearch::none, Tag{});
  const std::size_t comma = digits(1);
  if (comma == text.size()) return comma < kMaxTagBytes ? incomplete : none;
  if (comma == 1 || text[comma] != ',') return none;
  const std::size_t bracket = digits(comma + 1);
  if (bracket == text.size()) return bracket < kMaxTagBytes ? incomplete : none;
  if (bracket == comma + 1 || text[bracket] != ']') return none;
  const auto rank = parse_integer(text.substr(comma + 1, bracket - comma - 1));
  if (!rank) return none;
  const std::string_view rest = text.substr(bracket + 1);
  for (const std::string_view name : {"<stdout>:", "<stderr>:", "<stddiag>:"}) {
    if (rest.starts_with(name)) return {TagSearch::found, {*rank, bracket + 1 + name.size()}};
    if (name.starts_with(rest)) return incomplete;
  }
  return none;
}

bool is_finite_number(const nlohmann::json& fields, const char* name, bool positive) {
  const auto found = fields.find(name);
  if (found == fields.end() || !found->is_number()) return false;
  const double value = found->get<double>();
  return std::isfinite(value) && (!positive || value > 0);
}

Error broken(const RankLine& line, const std::string& why) {
  return Error("read the trainer's output", ErrorCode::protocol,
               fmt::format("{}: {}", why, printable(std::string_view(line.text).substr(0, 200))));
}

/// Fields a record must have: whole numbers, finite numbers, positive numbers, by kind.
void check_fields(const RankLine& line, RankRecord::Kind kind, const nlohmann::json& fields) {
  const auto need_integer = [&](const char* name) {
    if (!fields.contains(name) || !fields[name].is_number_integer() || fields[name].get<std::int64_t>() < 0)
      throw broken(line, fmt::format("'{}' must be a whole number of at least 0", name));
  };
  const auto need_number = [&](const char* name, bool positive) {
    if (!is_finite_number(fields, name, positive))
      throw broken(line,
                   fmt::format("'{}' must be a {}number", name, positive ? "positive finite " : "finite "));
  };
  const auto need_text = [&](const char* name) {
    if (!fields.contains(name) || !fields[name].is_string())
      throw broken(line, fmt::format("'{}' must be text", name));
  };
  using Kind = RankRecord::Kind;
  if (kind == Kind::hello) {
    for (const char* name : {"size", "local_rank"}) need_integer(name);
    need_text("hostname");
  } else if (kind == Kind::ready) {
    need_text("parameters_hash");
  } else if (kind == Kind::warmup) {
    need_integer("t_ns");
  } else if (kind == Kind::sample) {
    for (const char* name : {"t_ns", "step", "images"}) need_integer(name);
    need_number("seconds", true);
  } else if (kind == Kind::result) {
    need_number("images_per_second", true);
    need_text("scope");
    if (fields["scope"] == "rank") need_text("parameters_hash");
  } else if (kind == Kind::error) {
    need_text("message");
  }
}

}  // namespace

void RankOutputSplitter::add(std::string_view text) {
  const auto [entry, is_new] = partial_.try_emplace(current_);
  auto& line = entry->second;
  const auto added = text.substr(0, kMaxRecordBytes + 1 - std::min(line.size(), kMaxRecordBytes + 1));
  line += added;
  held_bytes_ += added.size() + (is_new ? kEntryBytes : 0);
  if (held_bytes_ > kMaxOtherOutputBytes)
    throw Error(
        "read the trainer's output", ErrorCode::protocol,
        fmt::format("it floods: more than {} of unfinished lines", format_size(kMaxOtherOutputBytes)));
}

void RankOutputSplitter::take_piece(std::string_view piece, bool ends_line,
                                    const std::function<void(RankLine)>& on_line) {
  add(piece);
  if (!ends_line) return;
  RankLine line;
  if (current_ >= 0) line.rank = current_;
  line.text = std::move(partial_[current_]);
  partial_.erase(current_);
  held_bytes_ -= line.text.size() + kEntryBytes;
  current_ = -1;
  on_line(std::move(line));
}

void RankOutputSplitter::feed(std::string_view bytes, const std::function<void(RankLine)>& on_line) {
  pending_.append(bytes);
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const auto special = rest.find_first_of("[\n");
    if (special != 0) {
      take_piece(rest.substr(0, special), false, on_line);
      if (special == std::string_view::npos)
        rest = {};
      else
        rest.remove_prefix(special);
      continue;
    }
    if (rest[0] == '\n') {
      take_piece({}, true, on_line);
      rest.remove_prefix(1);
      continue;
    }
    const auto [search, tag] = match_tag(rest);
    if (search == TagSearch::incomplete) break;
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
  add(std::exchange(pending_, {}));
  while (!partial_.empty()) {
    current_ = partial_.begin()->first;
    if (partial_.begin()->second.empty())
      partial_.erase(partial_.begin());
    else
      take_piece({}, true, on_line);
  }
}

std::optional<RankRecord> decode_record(const RankLine& line) {
  if (line.text.empty() || line.text[0] != '{') return std::nullopt;
  if (line.text.size() > kMaxRecordBytes) throw broken(line, "a record is longer than 4,096 bytes");
  auto fields = nlohmann::json::parse(line.text, nullptr, /*allow_exceptions=*/false);
  if (!fields.is_object()) throw broken(line, "a record is not a JSON object");
  const auto record = fields.find("record");
  if (record == fields.end() || !record->is_string()) throw broken(line, "a record does not say which it is");
  const auto rank = fields.find("rank");
  if (rank == fields.end() || !rank->is_number_integer())
    throw broken(line, "a record does not say its rank");

  using Kind = RankRecord::Kind;
  static const std::array<std::pair<const char*, Kind>, 6> kinds{{{"hello", Kind::hello},
                                                                  {"ready", Kind::ready},
                                                                  {"warmup", Kind::warmup},
                                                                  {"sample", Kind::sample},
                                                                  {"result", Kind::result},
                                                                  {"error", Kind::error}}};
  RankRecord out;
  out.rank = rank->get<std::int64_t>();  // below 0 where it does not fit, which no job has
  for (const auto& [name, kind] : kinds)
    if (*record == name) out.kind = kind;
  if (line.rank && *line.rank != out.rank)
    throw broken(line, fmt::format("rank {} speaks for another rank", *line.rank));
  check_fields(line, out.kind, fields);
  out.fields = std::move(fields);
  return out;
}

}  // namespace virtrain::harness
