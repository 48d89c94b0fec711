#include "results/diagnosis/topo_matrix.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "common/contains.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::results {
namespace {

constexpr std::size_t most_columns = 128;      // of one machine
constexpr std::size_t most_column_bytes = 32;  // "mlx5_bond_0"

/// nvidia-smi underlines the head of the matrix on terminals: "\x1b[4mGPU0\x1b[0m".
std::string without_styles(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i = std::min(line.find('m', i), line.size() - 1);
    } else {
      plain += line[i];
    }
  }
  return plain;
}

bool is_gpu_name(std::string_view name) {
  return name.starts_with("GPU") && parse_integer(name.substr(3)).has_value();
}

bool is_column_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !name.empty() && name.size() <= most_column_bytes && std::ranges::all_of(name, is_plain);
}

}  // namespace

std::string TopoMatrix::way(const std::string& from, const std::string& to) const {
  const auto found = ways.find({from, to});
  return found == ways.end() ? "" : found->second;
}

int nvlinks_of(std::string_view way) {
  const auto links = way.starts_with("NV") ? parse_integer(way.substr(2)) : std::nullopt;
  return links && *links > 0 && *links < 1000 ? static_cast<int>(*links) : 0;
}

std::optional<int> distance_of(std::string_view way) {
  constexpr std::array<std::string_view, 5> words{"PIX", "PXB", "PHB", "NODE", "SYS"};
  if (nvlinks_of(way) > 0) { return 0; }
  const auto* const found = std::ranges::find(words, way);
  return found == words.end() ? std::nullopt : std::optional(static_cast<int>(found - words.begin()) + 1);
}

bool TopoReader::take(std::string_view line) {
  const auto plain = without_styles(line);
  const auto words = words_of(plain);
  if (words.size() > 1 && is_gpu_name(words[0]) &&
      (is_gpu_name(words[1]) || words[1].find("CPU") == 0 || is_column_name(words[1])) &&
      !distance_of(words[1]) && words[1] != "X") {
    if (!columns_.empty()) { return false; }  // of a second matrix nothing is known
    for (const auto word : words) {
      if (word == "CPU" || columns_.size() == most_columns || !is_column_name(word)) { break; }
      columns_.emplace_back(word);
    }
    says_numa_ = plain.find("NUMA Affinity") != std::string::npos;
    return true;
  }
  if (columns_.empty() || words.size() <= columns_.size() || !contains(columns_, std::string(words[0]))) {
    return false;
  }
  const std::string name(words[0]);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (words[i + 1] != "X" && !distance_of(words[i + 1])) { return false; }
    if (words[i + 1] != "X") { matrix_.ways[{name, columns_[i]}] = words[i + 1]; }
  }
  add_once(is_gpu_name(name) ? matrix_.gpus : matrix_.adapters, name);
  const auto numa = columns_.size() + 2;  // behind the cores
  if (is_gpu_name(name) && says_numa_ && words.size() > numa) {
    const bool is_number = parse_integer(words[numa]).has_value();
    matrix_.numa[name] = is_number ? std::string(words[numa]) : "N/A";
  }
  return true;
}

std::optional<TopoMatrix> TopoReader::finish() {
  return matrix_.gpus.empty() ? std::nullopt : std::optional(matrix_);
}

}  // namespace virtrain::results
