// `serve`: answers requests over HTTP.
#include <unistd.h>

#include <csignal>
#include <thread>

#include "apps/cli/chat_template_argument.h"
#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/split_options.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/base/text_file.h"
#include "src/server/http/tls.h"
#include "src/server/models/local_models.h"
#include "src/server/server.h"

namespace gabbro::cli {
namespace {

constexpr size_t kMostKeyBytes = 1 << 20;

struct ServeArguments {
  CommonOptions common;
  std::vector<std::string> models, hosts, sockets, allowed_hosts, allowed_origins, aliases;
  int port = 11434;
  std::string keys, certificate, private_key, budget, cache_folder, cache_size = "10G";
  int64_t keep_alive = 300;
  bool no_auth = false, cache_per_key = false, any_model = false, strict = false, deterministic = false;
  int64_t context = 0;
  std::optional<std::string> kv_type;
  int64_t parallel = 4;
  int64_t queue = 256;
  int drain = 30;
  std::string chat_template;
};

// Null: none is asked for.
std::shared_ptr<const server::TlsContext> load_tls(const ServeArguments& o) {
  if (o.certificate.empty() != o.private_key.empty()) throw bad_input("--tls-cert and --tls-key go together");
  return o.certificate.empty() ? nullptr : server::TlsContext::load(o.certificate, o.private_key);
}

server::ServerOptions options_of(const ServeArguments& o) {
  server::ServerOptions options;
  if (!o.hosts.empty() || !o.sockets.empty()) options.http.hosts = o.hosts;
  options.http.paths = o.sockets;
  options.http.descriptors = server::inherited_sockets();
  if (!options.http.descriptors.empty()) options.http.hosts.clear();
  options.http.tls = load_tls(o);
  options.http.port = o.port;
  options.serves_without_key = o.no_auth;
  options.access.allowed_hosts = o.allowed_hosts;
  options.access.allowed_origins = o.allowed_origins;
  if (!o.keys.empty()) options.access.keys = server::parse_keys(read_text_file(o.keys, kMostKeyBytes), o.keys);
  options.service.version = GABBRO_VERSION;
  options.service.strict_requests = o.strict;
  options.service.cache_per_key = o.cache_per_key;
  options.models.queue_limit = static_cast<size_t>(o.queue);
  options.models.serves_any_name = o.any_model;
  if (!o.budget.empty()) options.models.memory = parse_size(o.budget, "--models-memory");
  options.models.keep_alive = o.keep_alive < 0 ? server::kForever : std::chrono::seconds(o.keep_alive);
  for (const std::string& alias : o.aliases) {
    const size_t equals = alias.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw bad_input("--alias: '{}' is not of the form NAME=MODEL", alias);
    options.models.aliases.emplace_back(alias.substr(0, equals), alias.substr(equals + 1));
  }
  if (o.common.log_level != "error")
    options.models.on_notice = [](const std::string& line) { log_report("note", line); };
  if (o.common.verbose()) options.log = [](const std::string& line) { log_line(printable(line)); };
  return options;
}

// Signals that end the server are taken by one thread, and no system call of others is interrupted by them.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// A file that cannot be read leaves the keys as they were.
void reload_keys(server::Server& server, const std::string& file) {
  if (file.empty()) return;
  try {
    server.set_keys(server::parse_keys(read_text_file(file, kMostKeyBytes), file));
    log_report("note", fmt::format("the keys of {} are read again", printable(file)));
  } catch (const Error& error) {
    log_report("error", fmt::format("{}: the keys stay as they were", error.what()));
  }
}

// Reads the certificate again.
void reload_tls(server::Server& server, const ServeArguments& o) {
  if (o.certificate.empty()) return;
  try {
    server.set_tls(load_tls(o));
    log_report("note", fmt::format("the certificate of {} is read again", printable(o.certificate)));
  } catch (const Error& error) {
    log_report("error", fmt::format("{}: the certificate stays as it was", error.what()));
  }
}

int run(ServeArguments& o) {
  const server::ServerOptions options = options_of(o);
  sigset_t signals = block_signals();
  server::LocalModelOptions models{.load = load_options(o.common, o.context, o.kv_type),
                                   .worker_command = {"/proc/self/exe", kWorkerCommand},
                                   .deterministic = o.deterministic,
                                   .cache_folder = o.cache_folder,
                                   .cache_bytes = parse_size(o.cache_size, "--cache-size"),
                                   .on_notice = options.models.on_notice};
  models.load.sequences = o.parallel;
  if (!o.chat_template.empty())
    models.load.chat_template = std::make_shared<const text::ChatTemplate>(read_template_argument(o.chat_template));
  auto source = std::make_unique<server::LocalModels>(std::move(models), o.models);
  std::vector<std::string> named;
  for (const server::ModelEntry& entry : source->named()) named.push_back(entry.id);
  server::Server server(options, std::move(source));
  server.start();
  for (const std::string& name : named) server.load(name);
  for (const std::string& address : server.addresses()) say(fmt::format("listening on {}\n", address));
  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && signal == SIGHUP) {
    reload_keys(server, o.keys);
    reload_tls(server, o);
  }
  sigdelset(&signals, SIGHUP);
  std::atomic<bool> hurry = false;
  std::thread second([&] {
    int again = 0;
    if (sigwait(&signals, &again) == 0) hurry = true;
  });
  if (o.common.log_level != "error")
    log_report("note", "the server ends its requests; a second signal ends it at once");
  server.drain(std::chrono::seconds(o.drain), hurry);
  pthread_kill(second.native_handle(), SIGTERM);
  second.join();
  return 0;
}

}  // namespace

void add_serve(Command root) {
  Command command = root.subcommand("serve", "Answer HTTP requests as OpenAI, Anthropic, Ollama and llama.cpp do");
  const auto o = std::make_shared<ServeArguments>();
  command
      .option("MODEL", o->models, "Models that are loaded at once and stay; others are loaded when they are asked for")
      .optional()
      .takes_rest()
      .file(FileUse::kModel);
  command.option("--host", o->hosts, "IP address to listen on; may be repeated")
      .placeholder("ADDRESS")
      .default_text("127.0.0.1 and ::1");
  command.number("--port", o->port, "Port to listen on; 0: any free one").range(0, 65535);
  command.option("--socket", o->sockets, "Path of a Unix socket to listen on; may be repeated")
      .placeholder("PATH")
      .file(FileUse::kOutput);
  command.option("--tls-cert", o->certificate, "Certificate chain in PEM: answer https")
      .placeholder("FILE")
      .file(FileUse::kInput);
  command.option("--tls-key", o->private_key, "Its private key in PEM").placeholder("FILE").file(FileUse::kInput);
  command.option("--keys", o->keys, "File of API keys, one a line: KEY, NAME:KEY or NAME:SHA256")
      .placeholder("FILE")
      .file(FileUse::kInput);
  command.flag("--no-auth", o->no_auth, "Ask for no key, also on addresses that others can reach");
  command.option("--allowed-hosts", o->allowed_hosts, "Host name that requests may give the server; may be repeated")
      .placeholder("NAME");
  command.option("--allowed-origins", o->allowed_origins, "Origin of web pages that may use it; may be repeated")
      .placeholder("ORIGIN");
  command.option("--alias", o->aliases, "Another name of a model; may be repeated").placeholder("NAME=MODEL");
  command.flag("--any-model", o->any_model, "The only loaded model answers for any name");
  command.flag("--strict-requests", o->strict, "Refuse fields that are not known");
  add_context(command, o->context);
  add_kv_type(command, o->kv_type);
  command.number("--parallel", o->parallel, "Requests that a model computes together").range(1, 1024);
  command.flag("--deterministic", o->deterministic,
               "Give each request the tokens that it gets alone, to the bit; slower");
  command.number("--queue", o->queue, "Requests that may wait for a model; others get 503").range(0, 1 << 20);
  command.number("--keep-alive", o->keep_alive, "Seconds that a model stays after its last request; -1: for ever")
      .range(-1, 1 << 30);
  command.option("--models-memory", o->budget, "Memory of all loaded models together").placeholder("SIZE");
  command.option("--cache-dir", o->cache_folder, "Folder for computed beginnings of texts, which later starts reuse")
      .placeholder("DIR")
      .file(FileUse::kFolder);
  command.flag("--cache-per-key", o->cache_per_key, "Requests of different keys share no computed beginnings of texts");
  command.option("--cache-size", o->cache_size, "Bytes that they may take").placeholder("SIZE").default_text("10G");
  command
      .option("--chat-template", o->chat_template,
              "Template for all models, a file or a name, in place of the one of their files")
      .placeholder("FILE|NAME")
      .file(FileUse::kInput);
  command.number("--drain", o->drain, "Seconds that requests have to end after a signal").range(0, 3600);
  add_device_options(command, o->common);
  add_memory_options(command, o->common);
  add_split_options(command, o->common.several);
  add_check_weights(command, o->common);
  add_quantize(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro serve smollm2-135m-instruct-q4_1");
  command.example("gabbro serve MODEL --host 0.0.0.0 --keys keys.txt --port 8080");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
