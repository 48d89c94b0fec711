#include "harness/schedule/mail.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t longest_address = 254;  // RFC 5321, 4.5.3.1.3

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_local_part(const std::string& text) {
  return !text.empty() && text.front() != '-' && text.front() != '.' && std::ranges::all_of(text, [](char c) {
    return is_letter_or_digit(c) || std::string_view("._%+-").find(c) != std::string_view::npos;
  });
}

bool is_host_name(const std::string& text) {
  return !text.empty() && is_letter_or_digit(text.front()) && is_letter_or_digit(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '-'; });
}

/// In English whatever the locale says.
std::string date_header(std::time_t now) {
  constexpr std::array days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                              "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} +0000",
                     days.at(static_cast<std::size_t>(utc.tm_wday)), utc.tm_mday,
                     months.at(static_cast<std::size_t>(utc.tm_mon)), utc.tm_year + 1900, utc.tm_hour,
                     utc.tm_min, utc.tm_sec);
}

}  // namespace

void require_mail_address(const std::string& address) {
  const auto at = address.find('@');
  if (address.size() > longest_address || at == std::string::npos || !is_local_part(address.substr(0, at)) ||
      !is_host_name(address.substr(at + 1))) {
    throw Error("read --mail", ErrorCode::usage,
                excerpt(address) + " is not a mail address (allowed: one, such as team@example.com)");
  }
}

std::filesystem::path find_sendmail() {
  const char* path = std::getenv("PATH");
  auto folders = split(path == nullptr ? "" : path, ':');
  folders.emplace_back("/usr/sbin");
  folders.emplace_back("/usr/lib");
  for (const auto& folder : folders) {
    if (!folder.starts_with('/')) { continue; }
    auto program = std::filesystem::path(folder) / "sendmail";
    if (::access(program.c_str(), X_OK) == 0) { return program; }
  }
  throw Error("find sendmail", ErrorCode::host_unable,
              "--mail needs a sendmail program (apt-get install msmtp-mta, or postfix)");
}

std::string mail_of(const std::string& address, const Message& message, const std::string& database,
                    std::time_t now) {
  const auto& body = message.body;
  const auto text = [&](const char* key) { return printable(body.at(key).get<std::string>()); };
  const auto file = printable(shell_word(database));
  const bool is_critical = body.at("severity") == "critical";
  return fmt::format(
      "To: {}\n"
      "Subject: {}virtrain {}: change {} {}, {}{}\n"
      "Date: {}\n"
      "{}Auto-Submitted: auto-generated\n"
      "MIME-Version: 1.0\n"
      "Content-Type: text/plain; charset=utf-8\n"
      "Content-Transfer-Encoding: 8bit\n"
      "\n"
      "{}\n"
      "\n"
      "Its runs and suspects: virtrain changes --db {}\n"
      "To accept it as the new normal: virtrain ack {} \"why\" --db {}\n",
      address, is_critical ? "[critical] " : "", text("schedule"), text("change"), text("event"),
      body.at("large").get<bool>() ? "much " : "", text("direction"), date_header(now),
      is_critical ? "Importance: high\n" : "", text("text"), file, text("change"), file);
}

void send_mail(const std::string& address, const Message& message, const std::string& database,
               const Cancelled& cancelled) {
  CommandOptions options;
  options.deadline = std::chrono::minutes(2);
  options.input = mail_of(address, message, database, std::time(nullptr));
  run_cancellable({find_sendmail().string(), "-t", "-i"}, options, cancelled, "hand a mail to sendmail");
}

}  // namespace virtrain::harness
