#include "vmctl/resources/kind/names.h"

#include "common/text/scanner.h"
#include "vmctl/slice/temporary_folder.h"

namespace virtrain::vmctl {

std::string experiment_in_name(std::string_view name) {
  if (!name.starts_with(domain_prefix)) { return {}; }
  name.remove_prefix(domain_prefix.size());
  return std::string(name.substr(0, name.rfind('-')));
}

std::optional<std::string> generated_tag(const std::string& name) {
  if (const auto slice = slice_of_unforeseen(name)) { return generated_tag(*slice); }
  const auto is_hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  Scanner in(name);
  const bool is_ours =
      in.take("virtrain-")
          ? in.take_digits(8) && in.take("t") && in.take_digits(6) && in.take("-")
          : in.take("vtb") || in.take("vtt") || in.take("vtv") || in.take("vtx") || in.take("vt-");
  const auto tag = is_ours ? in.take_while(is_hex, 6, 6) : std::string_view();
  if (in.take("-")) {
    in.take("t");
  } else {
    in.take("s");
  }
  const bool is_numbered = !in.take_while(is_digit).empty() && in.at_end();
  return tag.empty() || !is_numbered ? std::nullopt : std::optional<std::string>(tag);
}

std::string tag_of(const std::string& experiment) {
  return experiment.substr(experiment.rfind('-') + 1);
}

std::optional<std::string> domain_of_folder(const std::string& folder) {
  Scanner in(folder);
  if (!in.take("domain-") || in.take_while(is_digit).empty() || !in.take("-")) { return std::nullopt; }
  const std::string domain(in.rest());
  const bool is_ours = in.take("virtrain-") && in.take_digits(8) && in.take("t");
  return is_ours ? std::optional(domain) : std::nullopt;
}

}  // namespace virtrain::vmctl
