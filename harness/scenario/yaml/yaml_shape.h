#pragma once

#include <string>

#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// Whether the text is one YAML document, not nested too deeply and, with its aliases written out, not too
/// large to be read; complains otherwise. A pass over the text that builds nothing: yaml-cpp's own way to
/// load all documents never gets past a text such as ",".
bool check_yaml_shape(const std::string& text, Diagnostics& diagnostics);

}  // namespace virtrain::harness
