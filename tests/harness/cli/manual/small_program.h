#pragma once

#include "harness/cli/manual.h"

namespace virtrain::harness::manual {

/// A program with one of each: a flag, values of every kind, a verb of a verb, text that roff and shells
/// would misread.
inline Verb small_program() {
  const Argument help{{"-h", "--help"}, "", "Print this", "", "", {}, Completes::nothing, false, false};
  Verb show{"virtrain show",
            "Show one",
            "Ids are those of list.\nMore of this.\n\nExamples:\n  virtrain show a-b   the first\nExit "
            "codes: 0 done,\n  3 bad",
            {help,
             {{"--format"}, "FORMAT", "How", "table", "", {"table", "json"}, Completes::words, false, false},
             {{"-o", "--output"}, "FILE", "Where: it's [here]", "", "", {}, Completes::files, false, false},
             {{"--label"}, "TEXT", ".hidden \\ text", "", "Marks:", {}, Completes::nothing, true, true}},
            {{{"experiment"}, "EXPERIMENT", "Its id", "", "", {}, Completes::experiments, false, false}},
            {}};
  Verb add{"virtrain schedule add",
           "Add one",
           "",
           {help},
           {{{"scenario"}, "FILE", "Its file", "", "", {}, Completes::files, true, false}},
           {}};
  Verb schedule{"virtrain schedule", "Every night", "", {help}, {}, {add}};
  return {"virtrain",
          "virtrain: measures something.",
          "",
          {help,
           {{"--log-format"}, "TEXT", "Logs", "text", "", {"text", "json"}, Completes::words, false, false}},
          {},
          {show, schedule}};
}

}  // namespace virtrain::harness::manual
