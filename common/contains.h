#pragma once

#include <algorithm>
#include <vector>

namespace virtrain {

/// Whether the list has the value (std::ranges::contains of C++23).
template <typename T>
bool contains(const std::vector<T>& list, const T& value) {
  return std::ranges::find(list, value) != list.end();
}

/// Appends the value unless the list has it.
template <typename T>
void add_once(std::vector<T>& list, const T& value) {
  if (!contains(list, value)) { list.push_back(value); }
}

}  // namespace virtrain
