#include "src/engine/streaming/pass_forecast.h"

#include <gtest/gtest.h>

namespace gabbro::streaming {
namespace {

using Home = PlacedMatrix::Home;

// Layers with a matrix of attention (10 bytes) and two of a feed-forward block (20 each), all in `home`, and a ring for
// two layers.
Placement placement(int64_t layers, Home home) {
  Placement p{.ring_bytes = 100};
  const auto add = [&](int64_t layer, const char* name, uint64_t bytes) {
    p.matrices.push_back({.name = fmt::format("blk.{}.{}.weight", layer, name),
                          .layer = layer,
                          .file_bytes = bytes,
                          .device_bytes = bytes,
                          .ring_bytes = home == Home::kDevice ? 0 : bytes,
                          .home = home});
    if (home != Home::kDevice) p.bytes_per_pass += bytes;
  };
  for (int64_t layer = 0; layer < layers; ++layer) {
    add(layer, "attn_q", 10);
    add(layer, "ffn_up", 20);
    add(layer, "ffn_down", 20);
  }
  return p;
}

constexpr int64_t kLayers = 10;
constexpr double kBytes = 50 * kLayers;

TEST(PassForecast, TheSlowerOfLinkAndDevice) {
  const Placement p = placement(kLayers, Home::kFile);
  EXPECT_NEAR(seconds_of_pass(p, {}, {.links = {.file = 10}, .multiply = 1000}, 0, 0), kBytes / 10, 1e-9);
  // Reads while a layer is computed need room: two layers take turns.
  EXPECT_NEAR(seconds_of_pass(p, {}, {.links = {.file = 1000}, .multiply = 10}, 0, 0), kBytes / 10, 0.5);
  EXPECT_NEAR(seconds_of_pass(placement(kLayers, Home::kDevice), {}, {.multiply = 10}, 0, 0), kBytes / 10, 1e-9);
  // Host memory to a card, and a file that takes disk and bus.
  EXPECT_NEAR(seconds_of_pass(placement(kLayers, Home::kHost), {}, {.links = {.device = 5}, .multiply = 1e6}, 0, 0),
              kBytes / 5, 1e-3);
  EXPECT_NEAR(seconds_of_pass(p, {}, {.links = {.file = 10, .device = 5}, .multiply = 1e6}, 0, 0), kBytes / 5, 1e-3);
}

TEST(PassForecast, WhatLayersTakeBesides) {
  const Placement p = placement(kLayers, Home::kDevice);
  // Also of the head, which is a layer more.
  EXPECT_NEAR(seconds_of_pass(p, {}, {.multiply = 10, .layer_seconds = 2}, 0, 30), kBytes / 10 + 3 + 2 * (kLayers + 1),
              1e-9);
  // A layer is packed while the one before is computed, as far as the ring has room.
  Placement file = placement(kLayers, Home::kFile);
  const PassSpeeds packing = {.links = {.file = 1e6, .device = 10}, .multiply = 10};
  EXPECT_NEAR(seconds_of_pass(file, {}, packing, 0, 0), kBytes / 10, 1e-2);
  file.ring_bytes = 50;  // a layer
  EXPECT_NEAR(seconds_of_pass(file, {}, packing, 0, 0), 2 * kBytes / 10, 1e-2);
}

TEST(PassForecast, ASmallRingKeepsTheLinkWaiting) {
  Placement p = placement(kLayers, Home::kHost);
  p.ring_bytes = 50;  // a layer: it is copied, then computed
  const PassSpeeds even = {.links = {.device = 10}, .multiply = 10};
  EXPECT_NEAR(seconds_of_pass(p, {}, even, 0, 0), 2 * kBytes / 10, 1e-9);
  p.ring_bytes = 500;
  EXPECT_NEAR(seconds_of_pass(p, {}, even, 0, 0), kBytes / 10, 1e-9);
  // Buffers of reads are room for the file, and not for what is in host memory.
  Placement file = placement(kLayers, Home::kFile);
  file.ring_bytes = 50;
  EXPECT_NEAR(seconds_of_pass(file, {}, {.links = {.file = 10}, .multiply = 10}, 0, 0), 2 * kBytes / 10, 1e-9);
  EXPECT_NEAR(seconds_of_pass(file, {}, {.links = {.file = 10}, .multiply = 10}, 500, 0), kBytes / 10, 1e-9);
}

// Blocks on the CPU: their layers move 10 bytes in place of 50, and each waits for the CPU.
TEST(PassForecast, TheCpuComputesInBetween) {
  const Placement p = placement(kLayers, Home::kHost);
  HostPlan host;
  for (int64_t layer = 0; layer < kLayers; layer += 2) host.layers.push_back({.number = layer, .moved_bytes = 40});
  const PassSpeeds fast_cpu = {.links = {.device = 10}, .multiply = 1e6, .cpu = 1e6};
  EXPECT_NEAR(seconds_of_pass(p, host, fast_cpu, 0, 0), (kBytes - 5 * 40) / 10, 1e-2);
  const PassSpeeds slow_cpu = {.links = {.device = 1e6}, .multiply = 1e6, .cpu = 10};
  EXPECT_NEAR(seconds_of_pass(p, host, slow_cpu, 0, 0), 5 * 40 / 10.0, 1e-2);
  const PassSpeeds hand_over = {.links = {.device = 1e6}, .multiply = 1e6, .cpu = 10, .hand_over_seconds = 1};
  EXPECT_NEAR(seconds_of_pass(p, host, hand_over, 0, 0), 5 * (40 / 10.0 + 1), 1e-2);
  // Both: the bus goes on while the CPU computes, as far as the ring has room.
  const PassSpeeds both = {.links = {.device = 10}, .multiply = 1e6, .cpu = 10};
  const double seconds = seconds_of_pass(p, host, both, 0, 0);
  EXPECT_GE(seconds, (kBytes - 5 * 40) / 10);
  EXPECT_LE(seconds, (kBytes - 5 * 40) / 10 + 5 * 40 / 10.0);
}

// Experts that have no slot are read when they are chosen, and the link brings nothing else for them.
TEST(PassForecast, MissingExperts) {
  Placement p;
  p.matrices.push_back({.name = "blk.0.ffn_up_exps.weight",
                        .layer = 0,
                        .file_bytes = 800,
                        .device_bytes = 800,
                        .ring_bytes = 800,
                        .experts = 8,
                        .used = 2,
                        .home = Home::kByNeed});
  p.bytes_per_pass = 200;
  p.pools.push_back({.prefixes = {"blk.0."}, .experts = 8, .used = 2, .slots = 2, .slot_bytes = 100});
  const PassSpeeds speeds = {.links = {.file = 1e6}, .experts = 10, .multiply = 1e6};
  EXPECT_NEAR(seconds_of_pass(p, {}, speeds, 0, 0), 200 * 0.75 / 10, 1e-2);
  p.pools[0].slots = 8;
  EXPECT_NEAR(seconds_of_pass(p, {}, speeds, 0, 0), 0, 1e-2);
}

}  // namespace
}  // namespace gabbro::streaming
