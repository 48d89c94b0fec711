#pragma once

#include <string>
#include <vector>

#include "common/model/canary_messages.h"
#include "common/text/canary.h"
#include "harness/security/leak_evidence.h"

// Requests to virtrain-canary in a node, and its answers. A node's answers are untrusted: read strictly, made
// safe to show, and bounded.

namespace virtrain::harness {

/// The request as virtrain-canary takes it.
template <typename Request>
std::string request_text(const Request& request);
/// The answer to it. Throws Error(trial_failed) for what is none.
template <typename Request>
typename Request::Answer read_answer(const std::string& lines, const Request& request = {});

canary::CanaryTexts texts_of(const std::vector<Canary>& canaries);

/// "/dev/vda, bytes 4096 to 8191, 2 times".
std::string words_of(const canary::Finding& finding);
/// Scanned and total bytes, the control, and as a leak each other canary that was found.
LeakEvidence evidence_of(const canary::Searched& search, const std::vector<std::string>& controls);

}  // namespace virtrain::harness
