#pragma once

#include <ctime>
#include <filesystem>
#include <string>

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

}  // namespace virtrain::harness
