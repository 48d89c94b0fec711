#pragma once

#include <nlohmann/json.hpp>

#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/schedule/messages.h"

namespace virtrain::harness {

/// "team@example.com": letters, digits and . _ % + - before one @, a host name behind it, so that nothing in
/// it can end a header line or add a recipient. Error(usage).
void require_mail_address(const std::string& address);

/// The host's sendmail, by PATH or where it traditionally stands. Error(host_unable) where there is none.
std::filesystem::path find_sendmail();

/// Pure: a mail as `sendmail -t` reads it (RFC 5322), without From, which sendmail adds. Headers are ASCII of
/// our own making; what others wrote stands in the body. The commands in it are for `database`.
std::string mail_of(const std::string& address, const Message& message, const std::string& database,
                    std::time_t now);

/// Hands it to sendmail, which answers for its delivery. Error(io) with its words; Error(interrupted) where
/// `cancelled` ended it.
void send_mail(const std::string& address, const Message& message, const std::string& database,
               const Cancelled& cancelled = {});

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
