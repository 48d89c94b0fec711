#pragma once

#include <CLI/CLI.hpp>

#include "harness/cli/manual/verb.h"

namespace virtrain::harness {

/// What --help says, as data: of the app and of all verbs below it but the hidden ones.
manual::Verb describe(CLI::App& app);

}  // namespace virtrain::harness
