#pragma once

#include <pugixml.hpp>

#include <string>

namespace virtrain::vmctl {

/// Appends <name>text</name>.
inline pugi::xml_node add(pugi::xml_node parent, const char* name, const std::string& text = {}) {
  auto node = parent.append_child(name);
  if (!text.empty()) { node.text().set(text.c_str()); }
  return node;
}

/// Appends attribute="value"; chains.
inline pugi::xml_node with(pugi::xml_node node, const char* attribute, const std::string& value) {
  node.append_attribute(attribute).set_value(value.c_str());
  return node;
}

}  // namespace virtrain::vmctl
