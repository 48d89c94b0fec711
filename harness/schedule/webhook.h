#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"

namespace virtrain::harness {

/// Where messages are posted. All of it may be secret, so it is read from a file and never shown.
struct Webhook {
  std::string url = {};
  std::vector<std::string> headers = {};  ///< "Authorization: Bearer …"
  std::string ca = {};                    ///< file of the authority that signed the server; empty: the host's
  long timeout_seconds = 30;              ///< of one try, from the name's look-up to the last byte
};

/// Lines `url https://…`, `header NAME: VALUE`, `ca /FILE`, `timeout SECONDS`; # begins a comment.
/// Error(bad_input) with the line's number and without its text. http:// is for this machine's loopback only.
Webhook parse_webhook(const std::string& text, const std::string& file);
/// Reads a file that nobody else can read or change.
Webhook read_webhook(const std::filesystem::path& file);

/// Posts it as JSON. The server's certificate is verified, redirects are refused, and what may pass (no
/// connection, a time-out, 408, 429, 5xx) is tried three times. Error(io) says what came back, without URL;
/// Error(interrupted) soon after `cancelled` says so.
void post(const Webhook& webhook, const nlohmann::json& body, const Cancelled& cancelled = {});

}  // namespace virtrain::harness
