#include "harness/scenario/yaml/yaml_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/scenario/yaml/scenario_keys.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_diagnostics = 20;
constexpr std::size_t longest_message = 2000;

std::string shown(std::string_view value) {
  constexpr std::size_t most_shown = 60;
  return "'" + excerpt(value, most_shown) + "'";
}

/// Neither quoted nor tagged as something else than its reader wants.
bool is_plain(const YAML::Node& node) {
  constexpr std::string_view types[] = {"",
                                        "?",
                                        "tag:yaml.org,2002:int",
                                        "tag:yaml.org,2002:float",
                                        "tag:yaml.org,2002:bool",
                                        "tag:yaml.org,2002:null"};
  return std::ranges::find(types, node.Tag()) != std::end(types);
}

constexpr const char* name_pattern = "^[a-z0-9][a-z0-9._-]{0,63}$";
constexpr const char* size_pattern = "^[0-9]+(B|KiB|MiB|GiB|TiB)$";
constexpr const char* share_pattern = "^[0-9]+(\\.[0-9]+)?%$";
constexpr const char* duration_pattern = "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)$";

/// Text of a scalar; `plain` demands that it is not quoted (numbers and booleans).
std::optional<std::string> scalar(const Field& field, const std::string& what, bool plain,
                                  std::string_view expected, Diagnostics& diagnostics) {
  const bool is_scalar = field.node.IsScalar() && field.over.empty();
  if (is_scalar && (!plain || is_plain(field.node))) { return field.node.Scalar(); }
  diagnostics.add(is_scalar || field.over.empty() ? field.mark() : field.over.front().mark, "{} must be {}{}",
                  what, expected, is_scalar ? " (remove the quotes)" : "");
  return std::nullopt;
}

/// Nothing for a value beyond these.
template <typename T>
std::optional<T> within(std::optional<T> value, T least, T most) {
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

}  // namespace

void Diagnostics::add(const YAML::Mark& mark, const std::string& message) {
  Diagnostic found{mark.line + 1, mark.column + 1, excerpt(message, longest_message)};
  if (known_.emplace(found.line, found.column, found.message).second) { found_.push_back(std::move(found)); }
}

YAML::Mark Field::mark() const {
  return node.Mark().is_null() && !over.empty() ? over.front().mark : node.Mark();
}

void Field::lay(Layer layer) {
  if (!layer.path.empty() || (layer.node.IsMap() && (node.IsMap() || !over.empty()))) {
    over.push_back(std::move(layer));
  } else {
    node.reset(layer.node);  // an assignment would change the file
    over.clear();
  }
}

namespace {

/// Whether the words have the same letters, and numbers of other lengths.
bool is_other_number(const std::string& word, const std::string& other) {
  const auto letters_of = [](std::string text) {
    std::erase_if(text, is_digit);
    return text;
  };
  const auto letters = letters_of(word);
  return letters == letters_of(other) && letters != word && letters != other && word.size() != other.size();
}

}  // namespace

std::optional<std::string> meant_word(const std::string& word, const std::vector<std::string>& allowed) {
  constexpr std::pair<const char*, const char*> elsewhere[] = {
      {"gpu", "cuda"},     {"gpu", "passthrough"}, {"gpu", "gemm"},     {"half", "fp16"},
      {"float16", "fp16"}, {"bfloat16", "bf16"},   {"float32", "fp32"}, {"single", "fp32"}};
  for (const auto& [their, our] : elsewhere) {
    if (word == their && contains<std::string>(allowed, our)) { return our; }
  }
  const auto near = nearest_word(word, allowed);
  // "resnet101" is another model than resnet50; "fp61" is a slip.
  return near && is_other_number(word, *near) ? std::nullopt : near;
}

Layers layers_below(const Layers& layers, const std::vector<std::string>& path) {
  Layers below;
  for (const auto& layer : layers) {
    const auto common = std::min(layer.path.size(), path.size());
    if (!std::equal(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(common), layer.path.begin())) {
      continue;
    }
    YAML::Node node = layer.node;
    for (std::size_t i = common; i < path.size() && node.IsMap(); ++i) { node.reset(node[path[i]]); }
    const bool is_there = node.IsDefined() && (common == path.size() || layer.node.IsMap());
    if (!is_there) { continue; }
    below.push_back(
        {{layer.path.begin() + static_cast<std::ptrdiff_t>(common), layer.path.end()}, node, layer.mark});
  }
  return below;
}

Field Field::inheriting(const char* from) const {
  Field field = *this;
  field.inherited = from;
  return field;
}

bool Diagnostics::is_full() const {
  return found_.size() > most_diagnostics;
}

std::string Diagnostics::place(int line, int column) const {
  return fmt::format("{}:{}:{}", file_name_, line, column);
}

std::string Diagnostics::place(const YAML::Mark& mark) const {
  return place(mark.line + 1, mark.column + 1);
}

std::string Diagnostics::text() const {
  auto sorted = found_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  std::vector<std::string> lines;
  for (const auto& d : sorted) {
    if (lines.size() == most_diagnostics) {
      lines.push_back(fmt::format("{}: and {} more", file_name_, sorted.size() - most_diagnostics));
      break;
    }
    lines.push_back(fmt::format("{}: {}", place(d.line, d.column), d.message));
  }
  return join(lines, "\n");
}

void Diagnostics::throw_if_any() const {
  if (!empty()) { throw Error("read " + file_name_, ErrorCode::bad_input, text()); }
}

bool is_name(std::string_view text) {
  const auto alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (text.empty() || text.size() > 64 || !alnum(text[0])) { return false; }
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return alnum(c) || c == '.' || c == '_' || c == '-'; });
}

MapReader::MapReader(const Field& field, std::string what, Diagnostics& diagnostics)
    : field_(field),
      mark_(field.mark()),
      is_map_(field.node.IsMap() || (field.node.IsNull() && !field.over.empty())),
      what_(std::move(what)),
      diagnostics_(diagnostics) {
  if (field.describes()) {
    field.schema->update(
        {{"type", "object"}, {"additionalProperties", false}, {"properties", Schema::object()}});
    return;
  }
  if (!is_map_) {
    diagnostics_.add(mark_, "{} must be a mapping of keys to values", what_);
    return;
  }
  if (field_.node.IsMap()) { add_keys(field_.node, false); }
  for (const auto& layer : field_.over) {
    if (layer.path.empty()) {
      add_keys(layer.node, true);
      continue;
    }
    const auto& key = layer.path.front();
    keys_.try_emplace(key, layer.mark);
    values_[key].lay({{layer.path.begin() + 1, layer.path.end()}, layer.node, layer.mark});
  }
}

void MapReader::add_keys(const YAML::Node& map, bool laid_over) {
  std::set<std::string> here;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) {
      diagnostics_.add(entry.first.Mark(), "a key of {} must be plain text", what_);
      continue;
    }
    const auto& key = entry.first.Scalar();
    if (!here.insert(key).second) {
      diagnostics_.add(entry.first.Mark(), "key {} is there twice in {}", shown(key), what_);
      continue;
    }
    keys_.try_emplace(key, entry.first.Mark());
    if (laid_over) {
      values_[key].lay({{}, entry.second, entry.second.Mark()});
    } else {
      values_[key].node.reset(entry.second);
    }
  }
}

bool MapReader::has(const std::string& key) {
  known_.insert(key);
  return values_.contains(key);
}

YAML::Mark MapReader::mark(const std::string& key) const {
  const auto value = values_.find(key);
  return value == values_.end() ? mark_ : value->second.mark();
}

std::optional<Field> MapReader::child(const std::string& key, const About& about) {
  if (field_.describes()) { return describe(key, about); }
  if (!has(key)) { return std::nullopt; }
  Field field = values_.at(key);
  field.path = dotted(field_.path, key);
  return field;
}

Field MapReader::describe(const std::string& key, const About& about) {
  auto& property = (*field_.schema)["properties"][key];
  const char* absent = field_.inherited != nullptr ? field_.inherited : about.absent;
  property["description"] =
      absent != nullptr ? fmt::format("{}. Absent: {}", about.text, absent) : std::string(about.text);
  if (absent == nullptr && !about.fallback.is_null() && !is_required(key)) {
    property["default"] = about.fallback;
  }
  const auto& example = about.example.is_null() ? about.fallback : about.example;
  if (!example.is_null()) { property["examples"] = Schema::array({example}); }
  if (about.pattern != nullptr) { property["pattern"] = about.pattern; }
  return Field{.schema = &property, .inherited = field_.inherited};
}

bool MapReader::is_required(const std::string& key) const {
  const auto required = field_.schema->find("required");
  return required != field_.schema->end() &&
         std::find(required->begin(), required->end(), Schema(key)) != required->end();
}

void MapReader::require(const std::string& key) {
  if (field_.describes()) {
    if (field_.inherited == nullptr) { (*field_.schema)["required"].push_back(key); }
  } else if (!has(key) && is_map_) {
    missing_.push_back(key);
  }
}

void MapReader::schema_rules(const Schema& rules) {
  if (field_.describes()) { field_.schema->update(rules); }
}

template <typename Parse>
auto MapReader::parsed(const std::string& key, const About& about, const Scalar& rules, Parse parse)
    -> decltype(parse(key)) {
  const auto field = child(key, about);
  if (!field) { return std::nullopt; }
  if (field->describes()) {
    field->schema->update(rules.schema);
    return std::nullopt;
  }
  const auto text = scalar(*field, key, rules.plain, rules.expected, diagnostics_);
  if (!text) { return std::nullopt; }
  auto value = parse(*text);
  if (value) { return value; }
  auto allowed = rules.allowed;
  const auto candidates = rules.meant != nullptr ? rules.meant(*text) : std::vector<std::string>();
  const auto meant =
      std::ranges::find_if(candidates, [&](const auto& one) { return parse(one).has_value(); });
  if (meant != candidates.end()) { allowed.insert(allowed.size() - 1, "; did you mean " + *meant + "?"); }
  refuse(key, "{}: {} is not {}", key, shown(*text), allowed);
  return value;
}

std::optional<std::string> MapReader::text(const std::string& key, std::size_t most_bytes,
                                           const About& about) {
  const auto field = child(key, about);
  if (!field) { return std::nullopt; }
  if (field->describes()) {
    field->schema->update({{"type", "string"}, {"maxLength", most_bytes}});
    return std::nullopt;
  }
  auto value = scalar(*field, key, false, "text", diagnostics_);
  if (!value) { return std::nullopt; }
  if (value->size() <= most_bytes && value->find('\0') == std::string::npos) { return value; }
  refuse(key, "{} must be text of at most {} bytes without NUL", key, most_bytes);
  return std::nullopt;
}

std::map<std::string, std::string> MapReader::all_text(const Schema& rules) {
  std::map<std::string, std::string> values;
  if (field_.describes()) {
    field_.schema->erase("properties");
    (*field_.schema)["additionalProperties"] = {{"type", {"string", "number", "boolean"}}};
    field_.schema->update(rules);
    return values;
  }
  for (const auto& [key, field] : values_) {
    if (auto value = text(key, 4096, About{""})) { values[key] = std::move(*value); }
  }
  return values;
}

std::optional<std::string> MapReader::name(const std::string& key, const About& about) {
  return parsed(
      key, about,
      {.schema = {{"type", "string"}, {"pattern", name_pattern}},
       .expected = "a name",
       .allowed = "a name (allowed: lower-case letters, digits, '.', '_' and '-', first a letter or a "
                  "digit, at most 64)"},
      [](const std::string& text) { return is_name(text) ? std::optional(text) : std::nullopt; });
}

std::optional<std::int64_t> read_integer(const Field& item, const std::string& what, Range range,
                                         Diagnostics& diagnostics) {
  if (item.describes()) {
    item.schema->update({{"type", "integer"}, {"minimum", range.least}, {"maximum", range.most}});
    return std::nullopt;
  }
  const auto expected = fmt::format("a whole number from {} to {}", range.least, range.most);
  const auto value = scalar(item, what, true, expected, diagnostics);
  if (!value) { return std::nullopt; }
  const auto number = parse_integer(*value);
  if (within(number, range.least, range.most)) { return number; }
  diagnostics.add(item.node.Mark(), "{}: {} is not allowed (allowed: {})", what, shown(*value), expected);
  return std::nullopt;
}

std::optional<std::int64_t> MapReader::integer(const std::string& key, Range range, const About& about) {
  const auto field = child(key, about);
  return field ? read_integer(*field, key, range, diagnostics_) : std::nullopt;
}

std::optional<double> MapReader::number(const std::string& key, Range range, const About& about) {
  const auto expected = fmt::format("a number from {} to {}", range.least, range.most);
  const Schema schema{{"type", "number"}, {"minimum", range.least}, {"maximum", range.most}};
  return parsed(key, about,
                {.schema = schema,
                 .expected = expected.c_str(),
                 .allowed = "allowed (allowed: " + expected + ")",
                 .plain = true},
                [&](const std::string& text) {
                  return within(parse_number(text), static_cast<double>(range.least),
                                static_cast<double>(range.most));
                });
}

namespace {

std::vector<std::string> meant_truth(const std::string& text) {
  static const std::set<std::string> yes{"yes", "Yes", "on", "On", "True", "TRUE", "1"};
  static const std::set<std::string> no{"no", "No", "off", "Off", "False", "FALSE", "0"};
  if (yes.contains(text)) { return {"true"}; }
  return no.contains(text) ? std::vector<std::string>{"false"} : std::vector<std::string>();
}

/// "30s" of "30" and "30sec", "5m" of "5 min", "2h" of "2hours".
std::vector<std::string> meant_duration(const std::string& text) {
  const auto digits = text.find_first_not_of("0123456789.");
  const auto number = text.substr(0, digits);
  const auto unit = digits == std::string::npos ? "" : std::string(trim(text.substr(digits)));
  for (const auto* known : {"ms", "s", "m", "h"}) {
    if (unit.starts_with(known)) { return {number + known}; }
  }
  return unit.empty() ? std::vector{number + "s"} : std::vector<std::string>();
}

}  // namespace

std::optional<bool> MapReader::boolean(const std::string& key, const About& about) {
  Scalar rules{.schema = {{"type", "boolean"}},
               .expected = "true or false",
               .allowed = "allowed (allowed: true, false)",
               .plain = true,
               .meant = meant_truth};
  if (about.example.is_null()) { rules.schema["examples"] = Schema::array({about.fallback != true}); }
  return parsed(key, about, rules, [](const std::string& text) {
    return text == "true" || text == "false" ? std::optional(text == "true") : std::nullopt;
  });
}

std::optional<std::uint64_t> MapReader::size_bytes(const std::string& key, std::uint64_t least,
                                                   std::uint64_t most, const About& about) {
  return parsed(key, about,
                {.schema = {{"type", "string"}, {"pattern", size_pattern}},
                 .expected = "a size such as 512MiB",
                 .allowed = fmt::format("allowed (allowed: a size from {} to {} in KiB, MiB, GiB or TiB)",
                                        format_size(least), format_size(most)),
                 .meant =
                     [](const std::string& text) {
                       return std::vector{text.substr(0, text.size() - (text.ends_with('B') ? 1 : 0)) + "iB",
                                          text + "iB", text + "MiB"};
                     }},
                [&](const std::string& text) {
                  return within(text.ends_with('B') ? parse_size_bytes(text) : std::nullopt, least, most);
                });
}

std::optional<std::int64_t> MapReader::size_mib(const std::string& key, Range range, const About& about) {
  constexpr std::uint64_t mib = 1ULL << 20;
  const auto bytes = size_bytes(key, static_cast<std::uint64_t>(range.least) * mib,
                                static_cast<std::uint64_t>(range.most) * mib, about);
  if (!bytes) { return std::nullopt; }
  if (*bytes % mib != 0) { refuse(key, "{}: allowed are whole MiB, such as 4MiB", key); }
  return static_cast<std::int64_t>(*bytes / mib);
}

std::optional<double> MapReader::share(const std::string& key, double above, double below,
                                       const About& about) {
  const Schema number{{"type", "number"}, {"exclusiveMinimum", above}, {"exclusiveMaximum", below}};
  return parsed(key, about,
                {.schema = {{"anyOf", {{{"type", "string"}, {"pattern", share_pattern}}, number}}},
                 .expected = "a share such as 2% or 0.02",
                 .allowed = fmt::format(
                     "allowed (allowed: a share such as 2% or 0.02, above {} and below {})", above, below),
                 .meant = [](const std::string& text) { return std::vector{text + "%"}; }},
                [&](const std::string& text) {
                  const auto share = parse_share(text);
                  return share && *share > above && *share < below ? share : std::nullopt;
                });
}

std::optional<std::int64_t> MapReader::duration_ns(const std::string& key, std::int64_t least_ns,
                                                   std::int64_t most_ns, const About& about) {
  return parsed(
      key, about,
      {.schema = {{"type", "string"}, {"pattern", duration_pattern}},
       .expected = "a duration such as 30s or 5m",
       .allowed = fmt::format("allowed (allowed: a duration from {} to {}, such as 500ms, 30s, 5m or 2h)",
                              format_duration(least_ns), format_duration(most_ns)),
       .meant = meant_duration},
      [&](const std::string& text) { return within(parse_duration_ns(text), least_ns, most_ns); });
}

std::optional<std::size_t> MapReader::one_of(const std::string& key, const std::vector<std::string>& allowed,
                                             const About& about) {
  const auto field = child(key, about);
  if (!field) { return std::nullopt; }
  if (field->describes()) {
    (*field->schema)["enum"] = allowed;
    const auto other = std::find_if(allowed.begin(), allowed.end(),
                                    [&](const auto& word) { return Schema(word) != about.fallback; });
    if (about.example.is_null() && other != allowed.end()) {
      (*field->schema)["examples"] = Schema::array({*other});
    }
    return std::nullopt;
  }
  const auto value = scalar(*field, key, false, "one of " + join(allowed, ", "), diagnostics_);
  if (!value) { return std::nullopt; }
  const auto found = std::find(allowed.begin(), allowed.end(), *value);
  if (found != allowed.end()) { return static_cast<std::size_t>(found - allowed.begin()); }
  const auto near = meant_word(*value, allowed);
  const auto known = std::ranges::find(about.meant, std::string_view(*value), &MeantWord::word);
  const auto advice = known != about.meant.end() ? std::string("; ") + known->meaning
                      : near                     ? "; did you mean " + *near + "?"
                                                 : "";
  refuse(key, "{}: {} is not allowed (allowed: {}{})", key, shown(*value), join(allowed, ", "), advice);
  return std::nullopt;
}

bool MapReader::is_misspelt(const std::string& key) const {
  const std::vector<std::string> allowed(known_.begin(), known_.end());
  return std::ranges::any_of(keys_, [&](const auto& one) {
    return !known_.contains(one.first) && nearest_word(one.first, {key}) &&
           nearest_word(one.first, allowed) == key;
  });
}

void MapReader::finish() {
  if (field_.describes()) {
    describe_example();
    return;
  }
  const std::vector<std::string> allowed(known_.begin(), known_.end());
  for (const auto& key : missing_) {
    // A key that is written a little differently is refused below, once.
    if (!is_misspelt(key)) { diagnostics_.add(mark_, "{} needs the key '{}'", what_, key); }
  }
  for (const auto& [key, mark] : keys_) {
    if (known_.contains(key)) { continue; }
    const auto advice = diagnostics_.is_full() ? "allowed: " + join(allowed, ", ")
                                               : key_advice(key, field_.path, allowed, diagnostics_.places());
    diagnostics_.add(mark, "unknown key {} in {} ({})", shown(key), what_, advice);
  }
}

/// The keys that it must have, else the first one, with their examples.
void MapReader::describe_example() {
  auto& schema = *field_.schema;
  const bool is_key = schema.contains("description");  // else the whole document, or an item of a list
  if (!is_key || schema.contains("examples") || schema["properties"].empty()) { return; }
  auto keys = schema.value("required", Schema::array());
  if (keys.empty()) { keys.push_back(schema["properties"].begin().key()); }
  Schema example;
  for (const auto& key : keys) {
    const auto& property = schema["properties"][key.get<std::string>()];
    if (property.contains("examples")) { example[key.get<std::string>()] = property["examples"][0]; }
  }
  schema["examples"] = Schema::array({example});
}

std::vector<Field> read_list(const Field& field, const std::string& what, std::size_t least, std::size_t most,
                             Diagnostics& diagnostics) {
  if (field.describes()) {
    field.schema->update(
        {{"type", "array"}, {"minItems", least}, {"maxItems", most}, {"items", Schema::object()}});
    return {Field{{}, &(*field.schema)["items"]}};
  }
  const bool is_list = field.node.IsSequence() && field.over.empty();
  if (!is_list || field.node.size() < least || field.node.size() > most) {
    diagnostics.add(field.mark(), "{} must be a list of {} to {} items{}", what, least, most,
                    is_list ? "" : " (each on a line that begins with '- ', or [a, b])");
    return {};
  }
  std::vector<Field> items;
  for (const auto& item : field.node) { items.push_back({.node = item, .path = field.path + "[]"}); }
  return items;
}

std::vector<Field> read_set(const Field& field, const std::string& what, std::size_t least, std::size_t most,
                            Diagnostics& diagnostics) {
  if (field.describes()) { (*field.schema)["uniqueItems"] = true; }
  return read_list(field, what, least, most, diagnostics);
}

std::vector<std::string> read_words(MapReader& in, const char* key, const std::vector<std::string>& allowed,
                                    const About& about, Diagnostics& diagnostics) {
  std::vector<std::string> words;
  const auto list = in.child(key, about);
  if (!list) { return words; }
  if (list->describes() && !list->schema->contains("examples")) {
    (*list->schema)["examples"] = Schema::array({Schema::array({allowed.front()})});
  }
  for (const auto& item : read_set(*list, key, 1, allowed.size(), diagnostics)) {
    if (item.describes()) {
      (*item.schema)["enum"] = allowed;
      break;
    }
    const std::string word = item.node.IsScalar() ? item.node.Scalar() : "";
    if (!contains(allowed, word)) {
      const auto near = meant_word(word, allowed);
      diagnostics.add(item.node.Mark(), "{}: '{}' is not allowed (allowed: {}{})", key, excerpt(word),
                      join(allowed, ", "), near ? "; did you mean " + *near + "?" : "");
    } else if (contains(words, word)) {
      diagnostics.add(item.node.Mark(), "{}: '{}' is there twice", key, word);
    } else {
      words.push_back(word);
    }
  }
  return words;
}

}  // namespace virtrain::harness
