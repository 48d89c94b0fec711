#pragma once

#include <cstddef>
#include <string_view>

namespace virtrain {

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
inline bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
inline bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
inline bool is_letter(char c) {
  return is_lower(c) || is_upper(c);
}
inline bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// Takes a text apart from left to right, in linear time and without recursion whatever the text is
/// (std::regex uses up the stack on long ones). What does not fit is left where it is.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) { return false; }
    rest_.remove_prefix(word.size());
    return true;
  }
  /// As many characters of the class as there are, up to `most`; empty, and none taken, if fewer than
  /// `least`.
  template <typename Class>
  std::string_view take_while(Class is_wanted, std::size_t least = 1,
                              std::size_t most = std::string_view::npos) {
    std::size_t count = 0;
    while (count < rest_.size() && count < most && is_wanted(rest_[count])) { ++count; }
    if (count < least) { return {}; }
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  /// Exactly so many digits.
  bool take_digits(std::size_t count) { return take_while(is_digit, count, count).size() == count; }

  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace virtrain
