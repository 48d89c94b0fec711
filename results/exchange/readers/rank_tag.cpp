#include "results/exchange/readers/rank_tag.h"

#include <algorithm>

#include "common/text/scanner.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

/// "default0"
bool is_role_and_rank(std::string_view text) {
  const auto is_of_role = [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '-'; };
  return text.size() > 1 && is_digit(text.back()) && is_letter(text.front()) &&
         std::ranges::all_of(text, is_of_role);
}

}  // namespace

std::string_view without_rank_tag(std::string_view line) {
  Scanner label(line);
  label.take_while([](char c) { return c == ' '; });
  if (!label.take_while(is_digit).empty() && label.take(": ")) { return label.rest(); }
  if (!line.starts_with('[')) { return line; }
  if (const auto end = line.find("]:"); end != line.npos && is_role_and_rank(line.substr(1, end - 1))) {
    return trim(line.substr(end + 2));
  }
  const auto tag_end = line.find(">:");
  const auto digits_end = line.find_first_not_of("0123456789,", 1);
  if (tag_end == line.npos || digits_end == line.npos || line.substr(digits_end, 2) != "]<") { return line; }
  line.remove_prefix(tag_end + 2);
  return line.substr(line.starts_with(' ') ? 1 : 0);  // as Open MPI 5 tags
}

}  // namespace virtrain::results
