#pragma once

#include <pugixml.hpp>

#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>

namespace virtrain::vmctl {

/// Appends attribute="value"; chains.
inline pugi::xml_node with(pugi::xml_node node, const char* attribute, const std::string& value) {
  node.append_attribute(attribute).set_value(value.c_str());
  return node;
}

/// Appends <name>text</name>.
inline pugi::xml_node add(pugi::xml_node parent, const char* name, const std::string& text = {}) {
  auto node = parent.append_child(name);
  if (!text.empty()) { node.text().set(text.c_str()); }
  return node;
}

/// Appends <name attribute="value" …/>.
inline pugi::xml_node add(pugi::xml_node parent, const char* name,
                          std::initializer_list<std::pair<const char*, std::string>> attributes) {
  auto node = parent.append_child(name);
  for (const auto& [attribute, value] : attributes) { with(node, attribute, value); }
  return node;
}

inline std::string xml_text(const pugi::xml_document& document) {
  std::ostringstream out;
  document.save(out, "  ", pugi::format_default | pugi::format_no_declaration);
  return out.str();
}

}  // namespace virtrain::vmctl
