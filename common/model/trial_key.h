#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The key of a trial beside its pair: fields. Names are printed from them, and nothing takes a name apart.

namespace virtrain {

// The arms that every scenario may name; others are variants of these.

inline constexpr const char* arm_bare_metal = "bare_metal";
inline constexpr const char* arm_vm = "vm";
inline constexpr const char* arm_bare_metal_shared = "bare_metal_shared";

/// The base of arms whose machines exist already.
inline constexpr const char* arm_attach = "attach";

/// A point of a sweep: keys of the scenario with their values, in the order of the file.
struct SweptPoint {
  bool operator==(const SweptPoint&) const = default;
  std::vector<std::pair<std::string, std::string>> values = {};

  bool empty() const { return values.empty(); }
};

/// The family of which a case is a size or a point. All empty: the case is neither.
struct CaseKey {
  bool operator==(const CaseKey&) const = default;
  std::string family = {};                 ///< the case as its scenario calls it: "weak"
  std::optional<std::int64_t> scale = {};  ///< nodes, where it is one size of a weak scaling
  SweptPoint point = {};
};
BOOST_DESCRIBE_STRUCT(CaseKey, (), (family, scale, point))

/// The arm that an arm varies, and the neighbour beside which its trials ran. All empty: the arm stands for
/// itself.
struct ArmKey {
  bool operator==(const ArmKey&) const = default;
  std::string like = {};             ///< the arm that it varies: "vm"
  std::string neighbour = {};        ///< "idle", or the aggressor: "cpu"; empty: it ran alone
  std::optional<double> level = {};  ///< share of the time in which the aggressor works

  bool is_beside() const { return !neighbour.empty(); }
};
BOOST_DESCRIBE_STRUCT(ArmKey, (), (like, neighbour, level))

inline constexpr const char* idle_neighbour = "idle";

/// "batch_size=32,vcpus=2"
std::string to_text(const SweptPoint& point);
/// "weak@batch_size=32,vcpus=2/4": the name of a case that has a family.
std::string printed(const CaseKey& key);
/// The key without its size, and with another one.
CaseKey resized(CaseKey key, std::optional<std::int64_t> scale);
/// "idle", "cpu@25%": the neighbour and its level; empty: none.
std::string printed_neighbour(const ArmKey& key);
/// "vm+cpu@25%": the name of an arm beside a neighbour.
std::string printed(const ArmKey& key);

}  // namespace virtrain
