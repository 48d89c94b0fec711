#include <fmt/format.h>

#include <map>
#include <set>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/scenario/decode/sections.h"
#include "harness/scenario/yaml/scenario_keys.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_arms = 64;

const std::vector<std::string> base_arms{arm_bare_metal, arm_vm, arm_bare_metal_shared};

/// Keys of a scenario that every arm has alike, where somebody may look for them.
constexpr const char* same_in_all_arms[] = {"description", "cases",  "arms",         "probes",
                                            "pairs",       "reuse",  "sweep",        "price",
                                            "settle",      "expect", "oversubscribe"};

/// Where the scenario has what an arm says of its neighbour.
const std::vector<std::string> neighbour_path{"isolation", "neighbour"};

/// Arms train the same thing; what steers libraries, and the threads, may differ.
bool is_arms_workload(std::string_view key) {
  return is_at_or_below(key, "workload.env") || is_at_or_below(key, "workload.threads");
}

/// A value that is no mapping, by its dotted key.
struct Leaf {
  std::string key, value;
  YAML::Mark mark;
};

void add_leaves(const YAML::Node& node, const std::string& key, std::vector<Leaf>& leaves) {
  constexpr std::size_t longest_key = 1000;  // none that an arm has is half as long
  if (node.IsMap() && key.size() < longest_key) {
    for (const auto& entry : node) {
      if (entry.first.IsScalar()) { add_leaves(entry.second, key + "." + entry.first.Scalar(), leaves); }
    }
  } else if (node.IsSequence()) {
    std::vector<std::string> items;
    for (const auto& item : node) { items.push_back(item.IsScalar() ? item.Scalar() : "…"); }
    leaves.push_back({key, "[" + join(items, ", ") + "]", node.Mark()});
  } else {
    leaves.push_back({key, node.IsScalar() ? node.Scalar() : "", node.Mark()});
  }
}

/// A variant as the file has it: `like` may name one that comes later.
struct Draft {
  std::string name, like;
  YAML::Mark name_mark, like_mark;
  std::vector<ArmChange> changes;
  Layers layers;
  std::vector<AttachedMachine> attached = {};  ///< then it is like no other arm
  YAML::Mark attach_mark = {};
};

const About about_attach{
    .text = "Machines that exist already, each a node, in the order in which cases use them"};

void describe_attached_arm(Schema& schema, Diagnostics& unused) {
  MapReader in({{}, &schema}, "arm", unused);
  in.require("name");
  in.require("attach");
  in.name("name", {.text = "Name in tables", .example = "cloud"});
  auto about = about_attach;
  about.example = Schema::array({{{"launcher", Schema::array({"ssh", "-T", "user@vm1"})}}});
  if (const auto field = in.child("attach", about)) { decode_attach(*field, "", unused); }
  in.finish();
}

Draft decode_attached_arm(const Field& item, Diagnostics& diagnostics) {
  Draft draft;
  MapReader in(item, "arm", diagnostics);
  in.require("name");
  draft.name = in.name("name", {""}).value_or("");
  draft.name_mark = draft.like_mark = in.mark("name");
  draft.attach_mark = in.mark("attach");
  for (const char* key : {"like", "guest", "devices", "workload", "neighbour"}) {
    if (in.keys().contains(key) && in.has(key)) {
      in.refuse(key,
                "{}: an arm that attaches machines has only name and attach (a further arm may be like it)",
                key);
    }
  }
  if (const auto field = in.child("attach", about_attach)) {
    draft.attached = decode_attach(*field, draft.name, diagnostics);
  }
  in.finish();
  return draft;
}

void describe_variant(Schema& schema, Diagnostics& unused) {
  Schema variant;
  MapReader in({{}, &variant}, "arm", unused);
  in.require("name");
  in.require("like");
  in.name("name", {.text = "Name in tables", .example = "vm-unpinned"});
  in.name("like", {.text = "Arm that this one copies, except for its own keys; it may be a variant itself",
                   .example = "vm"});
  constexpr const char* as_other = "as in the arm that like names";
  const auto differs = [&](const char* key, const char* text, const Schema& example) {
    return in.child(key, {.text = text, .absent = as_other, .example = example})->inheriting(as_other);
  };
  decode_guest(differs("guest", "What differs in guest", {{"pinning", "none"}}), unused);
  decode_devices(differs("devices", "What differs in devices: all keys but kind and select",
                         {{"settings", {{"power_limit", "250W"}}}}),
                 unused);
  decode_workload(
      differs("workload", "What differs in workload: env, threads", {{"env", {{"NCCL_ALGO", "Ring"}}}}), {},
      unused);
  MapReader neighbour(
      differs("neighbour", "What differs in isolation.neighbour", {{"limits", {{"cpu", "50%"}}}}),
      "neighbour", unused);
  decode_limits(*neighbour.child("limits", {.text = "What each node of the neighbour may use at most"}), {},
                1, unused);
  auto& properties = variant["properties"];
  properties["devices"].erase("allOf");
  properties["guest"]["properties"].erase("packages");
  for (const char* key : {"kind", "select"}) { properties["devices"]["properties"].erase(key); }
  auto& workload = properties["workload"];
  workload = {{"description", workload["description"]},
              {"examples", workload["examples"]},
              {"type", "object"},
              {"additionalProperties", false},
              {"properties",
               {{"env", workload["properties"]["env"]}, {"threads", workload["properties"]["threads"]}}}};
  Schema attached;
  describe_attached_arm(attached, unused);
  schema = {{"anyOf", {{{"enum", base_arms}}, std::move(variant), std::move(attached)}}};
}

Draft decode_variant(const Field& item, Diagnostics& diagnostics) {
  if (item.node["attach"].IsDefined()) { return decode_attached_arm(item, diagnostics); }
  Draft draft;
  MapReader in(item, "arm", diagnostics);
  in.require("name");
  in.require("like");
  draft.name = in.name("name", {""}).value_or("");
  draft.like = in.name("like", {""}).value_or("");
  draft.name_mark = in.mark("name");
  draft.like_mark = in.mark("like");
  for (const char* key : same_in_all_arms) {
    if (in.keys().contains(key) && in.has(key)) {  // has() alone would let finish() list it as allowed
      in.refuse(key,
                "{} is the same in all arms (an arm may change: guest, devices, "
                "neighbour, workload.env, workload.threads)",
                key);
    }
  }
  for (const std::string part : {"guest", "devices", "workload", "neighbour"}) {
    const auto field = in.child(part, {""});
    if (!field) { continue; }
    std::vector<Leaf> leaves;
    add_leaves(field->node, part, leaves);
    for (const auto& leaf : leaves) {
      if (const auto* fixed = fixed_in_arms(leaf.key)) {
        diagnostics.add(leaf.mark, "{} cannot differ between arms: {}", fixed->key, fixed->why);
      } else if (leaf.key.starts_with("workload.") && !is_arms_workload(leaf.key)) {
        diagnostics.add(leaf.mark,
                        "{} cannot differ between arms, which train the same workload "
                        "(allowed: workload.env, workload.threads; or sweep over it)",
                        excerpt(leaf.key));
      }
      draft.changes.push_back({leaf.key, leaf.value});
    }
    draft.layers.push_back(
        {part == "neighbour" ? neighbour_path : std::vector<std::string>{part}, field->node, field->mark()});
  }
  in.finish();
  return draft;
}

/// Follows `like` down to an arm that there is.
class Resolver {
 public:
  Resolver(const std::vector<Draft>& drafts, Diagnostics& diagnostics) : diagnostics_(diagnostics) {
    for (const auto& draft : drafts) { by_name_.try_emplace(draft.name, &draft); }
  }

  Variant resolve(const Draft& draft) const {
    Variant variant;
    variant.arm.name = draft.name;
    variant.arm.like = draft.like;
    variant.arm.own_changes = draft.changes;
    std::vector<const Draft*> chain{&draft};
    while (chain.back()->attached.empty() && !contains(base_arms, chain.back()->like)) {
      const auto found = by_name_.find(chain.back()->like);
      if (found == by_name_.end()) {
        refuse_unknown(*chain.back());
        return variant;
      }
      if (contains(chain, found->second)) {
        diagnostics_.add(draft.like_mark,
                         "arm {} is like {}, which leads back to {} (a chain of 'like' must end at {})",
                         draft.name, draft.like, found->first, join(base_arms, ", "));
        return variant;
      }
      chain.push_back(found->second);
    }
    const auto& last = *chain.back();
    variant.arm.base = last.attached.empty() ? last.like : arm_attach;
    variant.arm.attached = last.attached;
    variant.attach_mark = last.attach_mark;
    refuse_keys_of_others(draft, variant.arm.base);
    for (auto one = chain.rbegin(); one != chain.rend(); ++one) {
      for (const auto& layer : (*one)->layers) { variant.layers.push_back(layer); }
      for (const auto& change : (*one)->changes) {
        std::erase_if(variant.arm.changes, [&](const auto& old) { return old.key == change.key; });
        variant.arm.changes.push_back(change);
      }
    }
    return variant;
  }

 private:
  void refuse_keys_of_others(const Draft& draft, const std::string& base) const {
    for (const auto& change : draft.changes) {
      if (change.key == "guest.pinning" && enum_of<Pinning>(change.value) == Pinning::none &&
          base != arm_vm) {
        diagnostics_.add(draft.like_mark,
                         "arm {} sets guest.pinning none, but slices of {} always keep to their "
                         "cores (allowed like vm)",
                         draft.name, base);
      }
      const auto allowed = arms_with(change.key);
      if (contains(allowed, base)) { continue; }
      diagnostics_.add(draft.like_mark, "arm {} sets {}, which has no meaning on {} (allowed like {})",
                       draft.name, change.key, base, join(allowed, " or "));
    }
  }

  void refuse_unknown(const Draft& draft) const {
    if (draft.like.empty()) { return; }  // told already
    auto allowed = base_arms;
    for (const auto& [name, other] : by_name_) {
      if (other != &draft) { allowed.push_back(name); }
    }
    const auto near = nearest_word(draft.like, allowed);
    diagnostics_.add(draft.like_mark, "like: there is no arm '{}' (allowed: {}{})", excerpt(draft.like),
                     join(allowed, ", "), near ? "; did you mean " + *near + "?" : "");
  }

  Diagnostics& diagnostics_;
  std::map<std::string, const Draft*> by_name_;
};

Variant plain_arm(const std::string& name) {
  Variant variant;
  variant.arm.name = variant.arm.base = name;
  return variant;
}

/// "2.10 EUR/h", above 0.
std::optional<Price> parse_price(const std::string& text) {
  Scanner scan(text);
  const auto whole = scan.take_while(is_digit, 1, 9);
  const bool fraction = !whole.empty() && (!scan.take(".") || !scan.take_while(is_digit, 1, 6).empty());
  const bool spaced = fraction && scan.take(" ");
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  const std::string currency = spaced ? std::string(scan.take_while(is_capital, 3, 3)) : "";
  if (currency.empty() || !scan.take("/h") || !scan.at_end()) { return std::nullopt; }
  const auto amount = parse_number(text.substr(0, text.find(' ')));
  return amount && *amount > 0 ? std::optional(Price{*amount, currency}) : std::nullopt;
}

}  // namespace

std::vector<Variant> decode_arms(MapReader& in, Diagnostics& diagnostics) {
  const About about{.text =
                        "Where each case runs: names of arms, and variants that name what they change; the "
                        "default with isolation is vm alone",
                    .fallback = {arm_bare_metal, arm_vm},
                    .example = {arm_bare_metal,
                                arm_vm,
                                {{"name", "vm-unpinned"}, {"like", "vm"}, {"guest", {{"pinning", "none"}}}}}};
  const auto list = in.child("arms", about);
  std::vector<Variant> variants;
  std::vector<Draft> drafts;
  std::set<std::string> names;
  const auto items = list ? read_set(*list, "arms", 1, most_arms, diagnostics) : std::vector<Field>();
  for (const auto& item : items) {
    if (item.describes()) {
      describe_variant(*item.schema, diagnostics);
      break;
    }
    if (item.node.IsMap()) { drafts.push_back(decode_variant(item, diagnostics)); }
    const std::string name = item.node.IsMap()      ? drafts.back().name
                             : item.node.IsScalar() ? item.node.Scalar()
                                                    : "";
    const auto mark = item.node.IsMap() ? drafts.back().name_mark : item.node.Mark();
    const bool is_base = contains(base_arms, name);
    if (!item.node.IsMap() && !is_base) {
      const auto near = nearest_word(name, base_arms);
      diagnostics.add(
          mark, "arms: '{}' is not allowed (allowed: {}, {{name: …, like: …}} or {{name: …, attach: …}}{})",
          excerpt(name), join(base_arms, ", "), near ? "; did you mean " + *near + "?" : "");
    } else if (item.node.IsMap() && is_base) {
      diagnostics.add(mark, "an arm named {} is always as the scenario says (give the variant another name)",
                      name);
    } else if (!name.empty() && !names.insert(name).second) {
      diagnostics.add(mark, item.node.IsMap() ? fmt::format("two arms are named '{}'", name)
                                              : fmt::format("arms: '{}' is there twice", name));
    }
    variants.push_back(plain_arm(name));
  }
  const Resolver resolver(drafts, diagnostics);
  std::size_t next = 0;
  for (std::size_t i = 0; i < variants.size() && next < drafts.size(); ++i) {
    if (items[i].node.IsMap()) { variants[i] = resolver.resolve(drafts[next++]); }
  }
  if (!variants.empty()) { return variants; }
  return {plain_arm(arm_bare_metal), plain_arm(arm_vm)};
}

void refuse_neighbour(const Variant& variant, Diagnostics& diagnostics) {
  for (const auto& layer : variant.layers) {
    if (layer.path != neighbour_path) { continue; }
    diagnostics.add(layer.mark,
                    "neighbour: the scenario has none (allowed with isolation in place of cases)");
  }
}

void decode_prices(MapReader& in, std::vector<Variant>& variants, Diagnostics& diagnostics) {
  const About about{.text = "Price of one node for an hour in each arm, in one currency",
                    .absent = "costs are not compared",
                    .example = {{"vm", "2.10 EUR/h"}, {"bare_metal", "1.60 EUR/h"}}};
  const auto field = in.child("price", about);
  if (!field) { return; }
  MapReader prices(*field, "price", diagnostics);
  auto texts =
      prices.all_text({{"additionalProperties",
                        {{"type", "string"}, {"pattern", "^[0-9]{1,9}(\\.[0-9]{1,6})? [A-Z]{3}/h$"}}}});
  std::map<std::string, Price> by_arm;
  std::vector<std::string> names;  // those that run, and what they are like
  for (const auto& variant : variants) {
    if (variant.arm.attached.empty()) { add_once(names, variant.arm.base); }
    add_once(names, variant.arm.name);
  }
  for (const auto& [name, text] : texts) {
    if (!contains(names, name)) {
      const auto near = nearest_word(name, names);
      prices.refuse(name, "price: there is no arm '{}' (allowed: {}{})", excerpt(name), join(names, ", "),
                    near ? "; did you mean " + *near + "?" : "");
    }
    const auto price = parse_price(text);
    if (!price) {
      prices.refuse(
          name, "price: '{}' is not allowed (allowed: an amount above 0 and a currency, such as 2.10 EUR/h)",
          excerpt(text));
      continue;
    }
    by_arm[name] = *price;
    if (price->currency != by_arm.begin()->second.currency) {
      prices.refuse(name, "price: {} and {} (allowed: one currency)", price->currency,
                    by_arm.begin()->second.currency);
    }
  }
  std::map<std::string, std::string> like;
  for (const auto& variant : variants) { like[variant.arm.name] = variant.arm.like; }
  for (auto& variant : variants) {
    std::string name = variant.arm.name;
    for (std::size_t hops = 0; hops <= variants.size() && !by_arm.contains(name) && !name.empty(); ++hops) {
      name = like[name];
    }
    if (by_arm.contains(name)) { variant.arm.price = by_arm[name]; }
  }
}

}  // namespace virtrain::harness
