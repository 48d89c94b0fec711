#include "harness/agent/agent.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>

#include "common/error.h"
#include "harness/agent/conversation.h"

namespace virtrain::harness {

Agent::Agent(asio::io_context& io, UniqueFd stream, bool reconnects)
    : io_(io), stream_(std::move(stream)), reconnects_(reconnects) {}

Agent::Agent(asio::io_context& io, UniqueFd in, UniqueFd out, std::chrono::milliseconds silence)
    : io_(io), stream_(std::move(in)), out_(std::move(out)), reconnects_(false), silence_(silence) {}

Agent::~Agent() = default;

asio::awaitable<void> Agent::run() {
  do {
    // A port stays open for the next coordinator, so each conversation gets a descriptor of its own to close.
    auto conversation = std::make_shared<Conversation>(io_, duplicate(stream_.get()),
                                                       out_ ? duplicate(out_.get()) : UniqueFd(), silence_);
    co_await conversation->run();
    // End of file from a port without a host client comes at once and again: look now and then, do not spin.
    asio::steady_timer pause(io_, std::chrono::milliseconds(50));
    co_await pause.async_wait(asio::use_awaitable);
  } while (reconnects_);
}

}  // namespace virtrain::harness
