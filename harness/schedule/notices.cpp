#include "harness/schedule/notices.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/schedule/trust.h"

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

namespace {

constexpr const char* posting = "post to the webhook";
constexpr std::int64_t longest_timeout_seconds = 600;

bool is_plain_line(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < ' ' || c == 127; });
}

/// Whether it goes to this machine itself.
bool is_loopback(std::string_view url) {
  constexpr std::array<std::string_view, 3> hosts = {"127.0.0.1", "localhost", "[::1]"};
  const auto rest = url.substr(std::min(url.find("//"), url.size() - 2) + 2);
  return url.find('@') == std::string_view::npos && std::ranges::any_of(hosts, [&](std::string_view host) {
           return rest.starts_with(host) &&
                  (rest.size() == host.size() || rest[host.size()] == ':' || rest[host.size()] == '/');
         });
}

bool is_allowed_url(const std::string& url) {
  const bool https = url.starts_with("https://") && url.size() > 8;
  const bool local = url.starts_with("http://") && is_loopback(url);
  return url.find(' ') == std::string::npos && (https || local);
}

struct Answer {
  std::string words;  ///< empty: it was taken
  bool may_pass = false;
};

/// The server's words are of no use to us. What comes by the megabyte ends the transfer: the status is known
/// by then.
std::size_t pass_over(char*, std::size_t size, std::size_t count, void* passed) {
  constexpr std::size_t most_bytes = std::size_t{64} << 10;
  auto& bytes = *static_cast<std::size_t*>(passed);
  bytes += size * count;
  return bytes > most_bytes ? 0 : size * count;
}

/// Advice for the user, where libcurl's message names SSH or a protocol that nobody asked for.
std::string words_of(CURLcode code) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
      return "the server's certificate is expired, of another name, or signed by an authority that this host "
             "does not know (a line ca /FILE names the authority)";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return "the answer is not HTTP";
    default:
      return curl_easy_strerror(code);
  }
}

/// libcurl asks several times a second, whatever it waits for; anything but 0 ends the transfer.
int ask_cancelled(void* cancelled, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& ask = *static_cast<const Cancelled*>(cancelled);
  return ask && ask() ? 1 : 0;
}

Answer post_once(const Webhook& webhook, const std::string& text, const Cancelled& cancelled) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(
      curl_slist_append(nullptr, "Content-Type: application/json"), curl_slist_free_all);
  for (const auto& header : webhook.headers) { curl_slist_append(headers.get(), header.c_str()); }
  const auto set = [&](CURLoption option, auto value) {
    if (curl_easy_setopt(curl.get(), option, value) != CURLE_OK) {
      throw Error(posting, ErrorCode::io, "libcurl refused a setting");
    }
  };
  set(CURLOPT_URL, webhook.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, webhook.url.starts_with("https:") ? "https" : "http");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  // A proxy of the environment's would read what goes by http, and knows another loopback.
  if (is_loopback(webhook.url)) { set(CURLOPT_PROXY, ""); }
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_POSTFIELDS, text.c_str());
  set(CURLOPT_POSTFIELDSIZE, static_cast<long>(text.size()));
  set(CURLOPT_CONNECTTIMEOUT, std::min(10L, webhook.timeout_seconds));
  set(CURLOPT_TIMEOUT, webhook.timeout_seconds);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &ask_cancelled);
  set(CURLOPT_XFERINFODATA, &cancelled);
  if (!webhook.ca.empty()) { set(CURLOPT_CAINFO, webhook.ca.c_str()); }
  std::size_t passed = 0;
  set(CURLOPT_WRITEFUNCTION, &pass_over);
  set(CURLOPT_WRITEDATA, &passed);
  const auto code = curl_easy_perform(curl.get());
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  // Taken, even where the answer's body never ends: sent again, it would be told twice.
  if (status >= 200 && status < 300) { return {}; }
  if (code != CURLE_OK && status == 0) {
    const bool certificate = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
    return {words_of(code), !certificate};
  }
  return {fmt::format("HTTP status {}{}", status,
                      status >= 300 && status < 400 ? ", a redirect; write the final URL into the file" : ""),
          status == 408 || status == 429 || status >= 500};
}

/// Returns early once it is cancelled.
void pause_for(std::chrono::milliseconds pause, const Cancelled& cancelled) {
  const auto end = std::chrono::steady_clock::now() + pause;
  while (std::chrono::steady_clock::now() < end && !(cancelled && cancelled())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace

Webhook parse_webhook(const std::string& text, const std::string& file) {
  Webhook webhook;
  std::size_t number = 0;
  const auto refuse_line = [&](const std::string& why) {
    return Error("read " + file, ErrorCode::bad_input,
                 fmt::format("{}:{}:1: {}", excerpt(file), number, why));
  };
  for (const auto& line : split(text, '\n')) {
    ++number;
    const auto trimmed = trim(line);
    if (trimmed.empty() || trimmed.front() == '#') { continue; }
    const auto space = std::min(trimmed.find(' '), trimmed.size());
    const auto key = trimmed.substr(0, space);
    const std::string value(trim(trimmed.substr(space)));
    if (!is_plain_line(value)) { throw refuse_line("control characters are not allowed"); }
    if (key == "url" && is_allowed_url(value)) {
      webhook.url = value;
    } else if (key == "url") {
      throw refuse_line("the URL has to begin with https:// (http:// only for this machine's loopback)");
    } else if (key == "header" && value.find(':') != std::string::npos && value.front() != ':') {
      webhook.headers.push_back(value);
    } else if (key == "ca" && value.starts_with('/')) {
      webhook.ca = value;
    } else if (key == "timeout") {
      const auto seconds = parse_integer(value);
      if (!seconds || *seconds < 1 || *seconds > longest_timeout_seconds) {
        throw refuse_line(fmt::format("timeout has to be 1 to {} seconds", longest_timeout_seconds));
      }
      webhook.timeout_seconds = static_cast<long>(*seconds);
    } else {
      throw refuse_line(
          "no such line (allowed: url https://…, header NAME: VALUE, ca /FILE, timeout SECONDS)");
    }
  }
  if (webhook.url.empty()) { throw refuse_line("a line url https://… is missing"); }
  return webhook;
}

Webhook read_webhook(const std::filesystem::path& file) {
  require_secret(file);
  auto webhook = parse_webhook(read_file(file).value_or(""), file.string());
  if (!webhook.ca.empty()) { require_only_ours(webhook.ca); }
  return webhook;
}

void post(const Webhook& webhook, const nlohmann::json& body, const Cancelled& cancelled) {
  constexpr std::array<std::chrono::seconds, 3> pauses = {std::chrono::seconds(1), std::chrono::seconds(5),
                                                          std::chrono::seconds(0)};
  const auto text = dump_json(body);
  Answer answer;
  for (const auto pause : pauses) {
    end_if(cancelled, posting);
    answer = post_once(webhook, text, cancelled);
    if (answer.words.empty()) { return; }
    end_if(cancelled, posting);
    if (!answer.may_pass) { break; }
    pause_for(pause, cancelled);
  }
  throw Error(posting, ErrorCode::io, answer.words);
}

}  // namespace virtrain::harness
