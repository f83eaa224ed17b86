// Streams, events, copies and graphs on HIP.
#include "backends/gpu/hip/code_target.h"
#include "backends/gpu/hip/graph_rules.h"
#include "backends/gpu/hip/objects.h"

namespace gabbro::gpu::api {

Queue* create_queue(Context* context) {
  context->use();
  auto queue = std::make_unique<Queue>(context);
  runtime().check(runtime().hipStreamCreateWithFlags_(&queue->stream, hipStreamNonBlocking), "creating a stream");
  return queue.release();
}

void destroy_queue(Queue* queue) {
  {
    const std::lock_guard lock(queue->context->products_mutex);
    if (queue->context->products != nullptr) queue->context->products->leave(queue->stream);
  }
  static_cast<void>(runtime().hipStreamDestroy_(queue->stream));
  delete queue;
}

void copy_to_device(Queue* queue, void* target, const void* host, size_t bytes) {
  if (bytes == 0) return;
  queue->context->use();
  runtime().check(runtime().hipMemcpyHtoDAsync_(target, host, bytes, queue->stream), "copying to the device");
}

void copy_to_host(Queue* queue, void* host, const void* source, size_t bytes) {
  if (bytes == 0) return;
  queue->context->use();
  runtime().check(runtime().hipMemcpyDtoHAsync_(host, const_cast<void*>(source), bytes, queue->stream),
                  "copying from the device");
}

bool is_done(Queue* queue) {
  queue->context->use();
  return runtime().is_done(runtime().hipStreamQuery_(queue->stream), "waiting for the device");
}

Event* create_event(Context* context) {
  context->use();
  auto event = std::make_unique<Event>(context);
  runtime().check(runtime().hipEventCreateWithFlags_(&event->event, hipEventDisableTiming), "creating an event");
  return event.release();
}

void destroy_event(Event* event) {
  if (event->context->try_use()) static_cast<void>(runtime().hipEventDestroy_(event->event));
  delete event;
}

void record(Queue* queue, Event* event) {
  queue->context->use();
  runtime().check(runtime().hipEventRecord_(event->event, queue->stream), "recording an event");
}

void wait(Queue* queue, Event* event) {
  queue->context->use();
  runtime().check(runtime().hipStreamWaitEvent_(queue->stream, event->event, 0), "waiting for an event");
}

bool is_done(Event* event) {
  event->context->use();
  return runtime().is_done(runtime().hipEventQuery_(event->event), "waiting for an event");
}

GraphRules graph_rules(const Context* context) {
  return hip::graph_rules_of(runtime().version(), hip::target_of(context->architecture));
}

std::chrono::milliseconds report_after() { return std::chrono::seconds(30); }

// Copies whose signal is lost are a known fault of several releases; copies by kernels have none.
std::string wait_advice() { return "HSA_ENABLE_SDMA=0 in the environment helps where copies are lost"; }

void begin_capture(Queue* queue) {
  queue->context->use();
  runtime().check(runtime().hipStreamBeginCapture_(queue->stream, hipStreamCaptureModeThreadLocal),
                  "capturing a graph");
}

Graph* end_capture(Queue* queue) {
  hipGraph_t captured = nullptr;
  const hipError_t ended = runtime().hipStreamEndCapture_(queue->stream, &captured);
  if (ended != hipSuccess && captured != nullptr) static_cast<void>(runtime().hipGraphDestroy_(captured));
  runtime().check(ended, "capturing a graph");
  auto graph = std::make_unique<Graph>();
  const hipError_t result = runtime().hipGraphInstantiateWithFlags_(&graph->exec, captured, 0);
  static_cast<void>(runtime().hipGraphDestroy_(captured));
  runtime().check(result, "making a graph");
  return graph.release();
}

void abandon_capture(Queue* queue) {
  hipGraph_t captured = nullptr;
  static_cast<void>(runtime().hipStreamEndCapture_(queue->stream, &captured));
  if (captured != nullptr) static_cast<void>(runtime().hipGraphDestroy_(captured));
}

void replay(Queue* queue, Graph* graph) {
  queue->context->use();
  graph->replayed = queue->stream;
  runtime().check(runtime().hipGraphLaunch_(graph->exec, queue->stream), "launching a graph");
}

// A graph that runs holds the arguments of its launches, which some releases free at once.
void destroy_graph(Graph* graph) {
  if (graph->replayed != nullptr) static_cast<void>(runtime().hipStreamSynchronize_(graph->replayed));
  static_cast<void>(runtime().hipGraphExecDestroy_(graph->exec));
  delete graph;
}

}  // namespace gabbro::gpu::api
