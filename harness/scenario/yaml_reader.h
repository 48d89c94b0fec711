#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace virtrain::harness {

/// One complaint about an input file, with 1-based position.
struct Diagnostic {
  int line = 1;
  int column = 1;
  std::string message;
};

/// Complaints of one file. All are collected, so that one reading shows every mistake.
class Diagnostics {
 public:
  explicit Diagnostics(std::string file_name) : file_name_(std::move(file_name)) {}

  void add(const YAML::Mark& mark, const std::string& message);
  bool empty() const { return found_.empty(); }
  /// Whether there are more than text() will show.
  bool is_full() const;
  const std::vector<Diagnostic>& found() const { return found_; }
  /// "file:line:column: message" a line, in file order; at most 20.
  std::string text() const;
  /// Throws Error(bad_input) with text() if there is any.
  void throw_if_any() const;

 private:
  std::string file_name_;
  std::vector<Diagnostic> found_;
};

/// Range of a whole number, both ends allowed.
struct Range {
  std::int64_t least;
  std::int64_t most;
};

/// Reads one YAML mapping strictly. Every getter marks its key as known; finish() refuses the rest, with the
/// nearest known key. yaml-cpp keeps duplicate keys silently, so they are looked for here. A getter returns
/// nothing when the key is absent or its value was refused (and the refusal recorded).
class MapReader {
 public:
  MapReader(const YAML::Node& node, std::string what, Diagnostics& diagnostics);

  bool has(const std::string& key);
  YAML::Mark mark(const std::string& key) const;
  YAML::Mark mark() const { return mark_; }
  /// The raw value, for nested mappings and lists.
  std::optional<YAML::Node> child(const std::string& key);

  std::optional<std::string> text(const std::string& key, std::size_t most_bytes = 4096);
  std::optional<std::string> name(const std::string& key);  ///< [a-z0-9][a-z0-9._-]*
  std::optional<std::int64_t> integer(const std::string& key, Range range);
  std::optional<bool> boolean(const std::string& key);
  std::optional<std::uint64_t> size_bytes(const std::string& key, std::uint64_t least, std::uint64_t most);
  std::optional<double> share(const std::string& key, double above, double below);
  std::optional<std::int64_t> duration_ns(const std::string& key, std::int64_t least_ns,
                                          std::int64_t most_ns);
  /// Index in `allowed`.
  std::optional<std::size_t> one_of(const std::string& key, const std::vector<std::string>& allowed);

  /// Every key with its text, for mappings whose keys are the user's own.
  std::map<std::string, std::string> all_text();

  void require(const std::string& key);
  void refuse(const std::string& key, std::string message);
  /// Complains about every key nobody asked for.
  void finish();

 private:
  /// Text of a scalar; `plain` demands that it is not quoted (numbers and booleans).
  std::optional<std::string> scalar(const std::string& key, bool plain, std::string_view expected);

  YAML::Node node_;
  YAML::Mark mark_;
  bool is_map_;
  std::map<std::string, YAML::Node> values_;  ///< by key; yaml-cpp would look through all of them each time
  std::string what_;
  Diagnostics& diagnostics_;
  std::set<std::string> known_;
};

/// The items of a list, or a complaint that it is none or has too few or too many.
std::vector<YAML::Node> read_list(const YAML::Node& node, const std::string& what, std::size_t least,
                                  std::size_t most, Diagnostics& diagnostics);

/// Whether it is a name of design.md: [a-z0-9][a-z0-9._-]*, at most 64 bytes.
bool is_name(std::string_view text);

}  // namespace virtrain::harness
