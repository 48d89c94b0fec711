#pragma once

#include <CLI/CLI.hpp>

#include "harness/cli/manual/verb.h"

namespace virtrain::harness {

/// --help as data: the app and all verbs below it but the hidden ones.
manual::Verb describe(CLI::App& app);

}  // namespace virtrain::harness
