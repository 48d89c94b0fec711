#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace virtrain::vmctl {

/// Begins the names of domains and networks.
inline constexpr std::string_view domain_prefix = "virtrain-";

/// "virtrain-<experiment>-<n>" without its ends; for things that carry no mark.
std::string experiment_in_name(std::string_view name);

/// The tag in a name as virtrain makes them (the last six characters of the experiment's id); nothing in
/// other names: "virtrain-dev" and "vt-lab" are somebody's own.
std::optional<std::string> generated_tag(const std::string& name);

std::string tag_of(const std::string& experiment);

/// The domain in the name of a channel folder, "domain-<id>-<name>", which libvirt may have shortened.
std::optional<std::string> domain_of_folder(const std::string& folder);

}  // namespace virtrain::vmctl
