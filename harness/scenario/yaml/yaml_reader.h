#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/enum_text.h"
#include "common/model/described.h"
#include "harness/scenario/yaml/scenario_keys.h"

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
  /// `find_places` is called where the file has a key that its mapping does not know.
  explicit Diagnostics(std::string file_name, const KeyPlaces& (*find_places)() = nullptr)
      : file_name_(std::move(file_name)), find_places_(find_places) {}

  void add(const YAML::Mark& mark, const std::string& message);
  template <typename Arg, typename... Args>
  void add(const YAML::Mark& mark, fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args) {
    add(mark, fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  bool empty() const { return found_.empty(); }
  /// Whether there are more than text() will show.
  bool is_full() const;
  const std::vector<Diagnostic>& found() const { return found_; }
  /// Where each key belongs; null: not known.
  const KeyPlaces* places() const { return find_places_ == nullptr ? nullptr : &find_places_(); }
  const std::string& file_name() const { return file_name_; }
  /// "file:line:column"
  std::string place(const YAML::Mark& mark) const;
  /// "file:line:column: message" a line, in file order; at most 20.
  std::string text() const;
  /// Throws Error(bad_input) with text() if there is any.
  void throw_if_any() const;

 private:
  std::string place(int line, int column) const;

  std::string file_name_;
  const KeyPlaces& (*find_places_)();
  std::vector<Diagnostic> found_;
  std::set<std::tuple<int, int, std::string>> known_;  ///< a part of the file may be read several times
};

/// Range of a whole number, both ends allowed.
struct Range {
  std::int64_t least;
  std::int64_t most;
};

/// A JSON Schema in the making; keys stay in the order in which they are described.
using Schema = nlohmann::ordered_json;

/// A value laid over those of the file, `path` keys below them: what an arm or a point of a sweep changes.
struct Layer {
  std::vector<std::string> path;
  YAML::Node node;
  YAML::Mark mark;  ///< what complaints about the path are shown with
};
using Layers = std::vector<Layer>;
/// The word that was most likely meant: the nearest, or for a word of other tools what it is called here.
std::optional<std::string> meant_word(const std::string& word, const std::vector<std::string>& allowed);

/// The part of these layers at or below `path`, and where below it.
Layers layers_below(const Layers& layers, const std::vector<std::string>& path);

/// A value of the file, or, where `schema` is set, what the schema says of such a value: the same decoder
/// reads a file and, walked without one, describes what files may say.
struct Field {
  YAML::Node node = {};
  Schema* schema = nullptr;
  Layers over = {};  ///< for the keys of a mapping; later ones win
  /// For the schema, where absent keys of a mapping take their values from elsewhere: "as in guest.limits".
  const char* inherited = nullptr;
  std::string path = {};  ///< in the file: "cases[].workload"

  bool describes() const { return schema != nullptr; }
  /// Where the file says it, or what is laid over it.
  YAML::Mark mark() const;
  /// With one more layer: a mapping's keys go one by one, anything else takes the value's place.
  void lay(Layer layer);
  /// The same value, whose absent keys are `from`; so are those of the mappings in it.
  Field inheriting(const char* from) const;
};

/// The schema's sentences about a key. An optional key has a default, or a sentence on what its absence
/// means.
struct About {
  const char* text;
  Schema fallback = nullptr;      ///< the default
  const char* absent = nullptr;   ///< becomes "Absent: …" at the end of the description
  Schema example = nullptr;       ///< null: made from the default, the allowed words or a mapping's keys
  const char* pattern = nullptr;  ///< of a text, for the schema; the reader's own refusal has words
  /// Other words that people write for one of several, and what they mean.
  std::span<const MeantWord> meant = {};
};

/// Reads one YAML mapping strictly. Every getter marks its key as known; finish() refuses the rest, with the
/// nearest known key or the place where the key belongs. yaml-cpp keeps duplicate keys silently, so they are
/// looked for here. A getter returns nothing when the key is absent or its value was refused (and the refusal
/// recorded).
class MapReader {
 public:
  MapReader(const Field& field, std::string what, Diagnostics& diagnostics);

  bool has(const std::string& key);
  YAML::Mark mark(const std::string& key) const;
  YAML::Mark mark() const { return mark_; }
  Diagnostics& diagnostics() { return diagnostics_; }
  /// Whether it makes a schema, and reads no file.
  bool describes() const { return field_.describes(); }
  std::size_t size() const { return values_.size(); }
  /// The keys that there are, and where.
  const std::map<std::string, YAML::Mark>& keys() const { return keys_; }
  /// The raw value, for nested mappings and lists.
  std::optional<Field> child(const std::string& key, const About& about);

  std::optional<std::string> text(const std::string& key, std::size_t most_bytes, const About& about);
  /// [a-z0-9][a-z0-9._-]*
  std::optional<std::string> name(const std::string& key, const About& about);
  std::optional<std::int64_t> integer(const std::string& key, Range range, const About& about);
  std::optional<double> number(const std::string& key, Range range, const About& about);
  std::optional<bool> boolean(const std::string& key, const About& about);
  std::optional<std::uint64_t> size_bytes(const std::string& key, std::uint64_t least, std::uint64_t most,
                                          const About& about);
  /// A size in whole MiB.
  std::optional<std::int64_t> size_mib(const std::string& key, Range range, const About& about);
  std::optional<double> share(const std::string& key, double above, double below, const About& about);
  std::optional<std::int64_t> duration_ns(const std::string& key, std::int64_t least_ns, std::int64_t most_ns,
                                          const About& about);
  /// Index in `allowed`.
  std::optional<std::size_t> one_of(const std::string& key, const std::vector<std::string>& allowed,
                                    const About& about);

  /// The same into a value that already holds the default.
  void integer(const std::string& key, Range range, std::int64_t& into, const char* text) {
    if (const auto value = integer(key, range, About{.text = text, .fallback = into})) { into = *value; }
  }
  void boolean(const std::string& key, bool& into, const char* text) {
    if (const auto value = boolean(key, About{.text = text, .fallback = into})) { into = *value; }
  }
  template <DescribedEnum E>
  void one_of(const std::string& key, E& into, const char* text) {
    if (const auto index = one_of(key, enum_names<E>(), About{.text = text, .fallback = to_string(into)})) {
      into = enum_values<E>()[*index];
    }
  }

  /// Every key with its text, for mappings whose keys are the user's own; `rules` is what the schema says of
  /// them.
  std::map<std::string, std::string> all_text(const Schema& rules);

  /// Before the key is described.
  void require(const std::string& key);
  void refuse(const std::string& key, const std::string& message) { diagnostics_.add(mark(key), message); }
  template <typename Arg, typename... Args>
  void refuse(const std::string& key, fmt::format_string<Arg, Args...> format, Arg&& arg, Args&&... args) {
    refuse(key, fmt::format(format, std::forward<Arg>(arg), std::forward<Args>(args)...));
  }
  /// Rules of the schema beyond the keys, where refuse() is told by conditions.
  void schema_rules(const Schema& rules);
  /// Complains about every key nobody asked for; a schema gets the mapping's example.
  void finish();
  /// Whether a key that nobody asked for is most likely this one, misspelt. For one that was asked for.
  bool is_misspelt(const std::string& key) const;

 private:
  Field field_;
  YAML::Mark mark_;
  bool is_map_;
  std::vector<std::string> missing_ = {};  ///< keys that it must have
  void add_keys(const YAML::Node& map, bool laid_over);
  Field describe(const std::string& key, const About& about);
  bool is_required(const std::string& key) const;
  void describe_example();

  /// A scalar for the schema and for complaints: "must be `expected`", "is not `allowed`".
  struct Scalar {
    Schema schema;
    const char* expected;
    std::string allowed;
    bool plain = false;  ///< not quoted
    /// Writings of ours that somebody may have meant by this one: "768MiB" by "768M".
    std::vector<std::string> (*meant)(const std::string& text) = nullptr;
  };
  /// The scalar as `parse` takes its text; what it makes nothing of is refused.
  template <typename Parse>
  auto parsed(const std::string& key, const About& about, const Scalar& rules, Parse parse)
      -> decltype(parse(key));

  /// By key; yaml-cpp would look through all of them each time.
  std::map<std::string, Field> values_;
  std::map<std::string, YAML::Mark> keys_;  ///< where each is said
  std::string what_;
  Diagnostics& diagnostics_;
  std::set<std::string> known_;
};

/// The items of a list, or a complaint that it is none or has too few or too many.
std::vector<Field> read_list(const Field& field, const std::string& what, std::size_t least, std::size_t most,
                             Diagnostics& diagnostics);
/// Items of a list that may not be there twice; `what` as in read_list().
std::vector<Field> read_set(const Field& field, const std::string& what, std::size_t least, std::size_t most,
                            Diagnostics& diagnostics);
/// Words of a list under this key, each of them allowed and there once.
std::vector<std::string> read_words(MapReader& in, const char* key, const std::vector<std::string>& allowed,
                                    const About& about, Diagnostics& diagnostics);
/// A whole number that is an item of the list `what`.
std::optional<std::int64_t> read_integer(const Field& item, const std::string& what, Range range,
                                         Diagnostics& diagnostics);

/// Whether it is a name: [a-z0-9][a-z0-9._-]*, at most 64 bytes.
bool is_name(std::string_view text);

}  // namespace virtrain::harness
