// Single files: the bits of the folder, what tells their family, and what is refused by its name.
#include "src/pictures/single_file/single_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gabbro/error.h"
#include "src/base/text_file.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/pipeline_conversion.h"
#include "src/pictures/single_file/part_configs.h"
#include "tests/pictures/expected_tensors.h"
#include "tests/pictures/single_file_writer.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

class SingleFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("single-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // The tokenizers of the folder, which single files do not have.
  static std::vector<std::string> tokenizers(const std::string& name) {
    std::vector<std::string> found{picture_folder(name) + "/tokenizer"};
    if (name == "sdxl") found.push_back(picture_folder(name) + "/tokenizer_2");
    return found;
  }

 private:
  fs::path folder_;
};

std::string without_model(std::string_view name) {
  constexpr std::string_view kModelName = "text_model.";
  return std::string(name.starts_with(kModelName) ? name.substr(kModelName.size()) : name);
}

void expect_same_tensors(const Checkpoint& actual, const Checkpoint& expected) {
  std::map<std::string, CheckpointTensor> found;
  for (const CheckpointTensor& tensor : actual.tensors()) found.emplace(without_model(tensor.name), tensor);
  EXPECT_EQ(found.size(), expected.tensors().size()) << actual.path();
  for (const CheckpointTensor& tensor : expected.tensors()) {
    const auto same = found.find(without_model(tensor.name));
    ASSERT_NE(same, found.end()) << actual.path() << ": " << tensor.name;
    const CheckpointTensor& other = same->second;
    other.prepare();
    EXPECT_EQ(other.shape, tensor.shape) << tensor.name;
    EXPECT_EQ(other.dtype(), tensor.dtype()) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(other.data, tensor.data)) << actual.path() << ": " << tensor.name;
    other.release();
  }
}

PictureRequest small_request() {
  return {.prompt = "a red heart", .negative = "blurry", .width = 24, .height = 16, .steps = 2, .sampler = "euler"};
}

TEST_F(SingleFiles, have_the_bits_of_the_folder) {
  for (const std::string name : {"sd15", "sd21", "sdxl"}) {
    convert_pipeline(picture_folder(name), path(name), *find_file_type("f16"));
    const PipelineParts folder = open_pipeline(path(name));
    const auto request = small_request();
    const Latent expected = Pipeline::load(path(name), {.threads = 2})->generate(request).latent;
    for (const std::string ending : {".safetensors", ".gguf"}) {
      const std::string file = path(name + ending);
      write_single_file(name, file, {.folder = path(name)});
      const PipelineParts parts = open_pipeline(file, {.tokenizers = tokenizers(name)});
      EXPECT_EQ(parts.class_name, folder.class_name);
      EXPECT_EQ(parts.name, name);
      expect_same_tensors(parts.unet.checkpoint, folder.unet.checkpoint);
      expect_same_tensors(parts.autoencoder.checkpoint, folder.autoencoder.checkpoint);
      ASSERT_EQ(parts.text_encoders.size(), folder.text_encoders.size());
      for (size_t i = 0; i < parts.text_encoders.size(); ++i)
        expect_same_tensors(parts.text_encoders[i].checkpoint, folder.text_encoders[i].checkpoint);
      const auto pipeline = Pipeline::load(file, {.threads = 2, .tokenizers = tokenizers(name)});
      EXPECT_EQ(pipeline->generate(request).latent, expected) << file;
      EXPECT_GT(pipeline->facts().file_bytes, 0u);
    }
  }
}

TEST_F(SingleFiles, take_parts_of_other_files) {
  const std::string whole = path("whole.safetensors"), bare = path("bare.safetensors");
  write_single_file("sdxl", whole);
  write_single_file("sdxl", bare, {.left_out = {"vae", "text_encoder", "text_encoder_2"}});
  write_single_file("sdxl", path("vae.safetensors"), {.left_out = {"unet", "text_encoder", "text_encoder_2"}});
  const std::string folder = picture_folder("sdxl");
  const PipelineOptions options{.threads = 2,
                                .vae = path("vae.safetensors"),
                                .text_encoders = {folder + "/text_encoder", folder + "/text_encoder_2"},
                                .tokenizers = tokenizers("sdxl")};
  const Latent expected = Pipeline::load(folder, {.threads = 2})->generate(small_request()).latent;
  const auto drawn = Pipeline::load(bare, options)->generate(small_request());
  EXPECT_EQ(drawn.latent, expected);
  // Folders take them too, and tokenizers next to a file are found.
  EXPECT_EQ(Pipeline::load(folder, options)->generate(small_request()).picture.pixels, drawn.picture.pixels);
  fs::copy(folder + "/tokenizer", path("tokenizer"));
  fs::copy(folder + "/tokenizer_2", path("tokenizer_2"));
  EXPECT_EQ(Pipeline::load(whole, {.threads = 2})->generate(small_request()).latent, expected);
}

TEST_F(SingleFiles, say_what_is_missing) {
  const auto refused = [&](const std::string& part, const std::string& hint, const PipelineOptions& options) {
    try {
      Pipeline::load(path("a.safetensors"), options);
      ADD_FAILURE() << "accepts " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find(hint), std::string::npos) << error.hint();
    }
  };
  const std::vector<std::string> of_sd15 = tokenizers("sd15");
  write_single_file("sd15", path("a.safetensors"));
  refused("holds no tokenizer", "--tokenizer FOLDER", {});
  refused("has neither vocab.json", "", {.tokenizers = {path("")}});
  refused("takes 1 text encoder", "", {.text_encoders = {"a", "b"}, .tokenizers = of_sd15});
  refused("the model has 1 text encoder", "", {.tokenizers = {"a", "b"}});
  refused("--vae", "", {.vae = picture_folder("sd15") + "/text_encoder/model.safetensors", .tokenizers = of_sd15});
  refused(
      "--text-encoder", "",
      {.text_encoders = {picture_folder("sd15") + "/vae/diffusion_pytorch_model.safetensors"}, .tokenizers = of_sd15});
  refused("no such file", "", {.vae = path("none.safetensors"), .tokenizers = of_sd15});
  refused("pickle", "",
          {.vae =
               [&] {
                 std::ofstream(path("v.ckpt")) << "x";
                 return path("v.ckpt");
               }(),
           .tokenizers = of_sd15});
  write_single_file("sd15", path("a.safetensors"), {.left_out = {"vae"}});
  refused("holds no autoencoder (VAE)", "--vae FILE", {.tokenizers = of_sd15});
  refused("no autoencoder (VAE) and no tokenizer", "--tokenizer FOLDER", {});
  write_single_file("sd15", path("a.safetensors"), {.left_out = {"text_encoder"}});
  refused("holds no text encoder (CLIP)", "--text-encoder FILE", {.tokenizers = of_sd15});
  write_single_file("sdxl", path("a.safetensors"), {.left_out = {"text_encoder_2"}});
  refused("no pair of text encoders", "--text-encoder FILE, twice", {.tokenizers = of_sd15});
  write_single_file("sd15", path("a.safetensors"), {.left_out = {"unet"}});
  refused("holds an autoencoder and no U-Net", "--vae", {.tokenizers = of_sd15});
  write_single_file("sd15", path("a.safetensors"), {.left_out = {"unet", "vae"}});
  refused("holds a text encoder and no U-Net", "--text-encoder", {.tokenizers = of_sd15});
  write_single_file("sd15", path("a.safetensors"), {.more = {"model.diffusion_model.other.weight"}});
  refused("model.diffusion_model.other.weight", "", {.tokenizers = of_sd15});
  write_single_file("sd15", path("a.safetensors"), {.stores_config = false});
  refused("are not", "", {.tokenizers = of_sd15});  // groups of 32 channels, as all published models have
}

TEST_F(SingleFiles, of_other_models_are_refused_by_their_names) {
  const std::pair<const char*, const char*> models[] = {
      {"lora_unet_down_blocks_0.lora_down.weight", "a LoRA"},
      {"transformer.a.lora_A.weight", "a LoRA"},
      {"lora_te_text_model.hada_w1_a", "a LoRA"},
      {"x.lokr_w1", "a LoKr"},
      {"control_model.input_blocks.0.0.weight", "a ControlNet"},
      {"controlnet_cond_embedding.conv_in.weight", "a ControlNet"},
      {"ip_adapter.1.to_k_ip.weight", "an IP-Adapter"},
      {"adapter.body.0.in_conv.weight", "a T2I-Adapter"},
      {"down_blocks.0.motion_modules.0.x", "AnimateDiff"},
      {"llm_adapter.blocks.0.x", "Anima"},
      {"single_stream_modulation.lin.weight", "FLUX.2"},
      {"distilled_guidance_layer.norms.0.scale", "Chroma"},
      {"model.diffusion_model.double_blocks.0.img_attn.norm.key_norm.scale", "FLUX.1"},
      {"double_stream_modulation_img.lin.weight", "FLUX.2"},
      {"time_text_embed.guidance_embedder.linear_1.weight", "FLUX.1"},
      {"txt_in.individual_token_refiner.blocks.0.x", "HunyuanVideo"},
      {"model.diffusion_model.layers.0.adaLN_modulation.0.weight", "Z-Image"},
      {"cap_embedder.0.weight", "Lumina 2"},
      {"model.diffusion_model.joint_blocks.0.x_block.attn.qkv.weight", "Stable Diffusion 3"},
      {"transformer_blocks.0.img_mod.1.weight", "Qwen-Image"},
      {"head.modulation", "Wan"},
      {"patchify_proj.weight", "LTX-Video"},
      {"double_stream_blocks.0.x", "HiDream"},
      {"transformer_blocks.0.attn.add_q_proj.weight", "Stable Diffusion 3"},
      {"txt_in.in_layer.weight", "Qwen-Image 2.1"},
      {"attention_y_norm.weight", "Sana"},
      {"blocks.0.cross_attn.kv_linear.weight", "PixArt"},
      {"adaln_single.linear.weight", "PixArt"},
      {"t5_y_embedder.q.weight", "Mochi"},
      {"style_embedder.weight", "Hunyuan-DiT"},
      {"visual_embeddings.in_layer.weight", "Kandinsky 5"},
      {"encoder_hid_proj.weight", "Kolors"},
      {"time_stack.0.weight", "Stable Video Diffusion"},
      {"RRDB_trunk.0.weight", "an upscaler"},
      {"controlnet_blocks.0.weight", "a ControlNet"},
      {"control_all_x_embedder.2-1.weight", "a ControlNet of Z-Image"},
      {"image_proj.proj.weight", "an IP-Adapter"},
      {"double_layers.0.attn.w1q.weight", "AuraFlow"},
      {"clip_txt_mapper.weight", "Stable Cascade"},
      {"net.blocks.0.x", "Cosmos"},
      {"emb_params", "textual inversion"},
      {"body.0.rdb1.conv1.weight", "an upscaler"},
      {"model.layers.0.self_attn.q_proj.weight", "gabbro run"},
      {"model.diffusion_model.x.scale_weight", "FP8 weights"},
      {"a.comfy_quant", "quantized form of ComfyUI"},
      {"transformer_blocks.0.qkv.wscales", "SVDQuant"},
      {"down_blocks.0.resnets.0.conv1.weight", "one part of a pipeline"},
      {"something.else", "no input_blocks.0.0.weight"}};
  for (const auto& [tensor, title] : models) {
    const std::pair<std::string, std::vector<int64_t>> tensors[] = {{tensor, {1}}};
    try {
      recognize_single_file(Checkpoint::of_config("a.safetensors", "{}", tensors));
      ADD_FAILURE() << "accepts " << tensor;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(title), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("a.safetensors: "), std::string::npos) << error.what();
    }
  }
}

using Shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

Shapes published_shapes(const Json& names) {
  Shapes shapes;
  for (const auto& [name, shape] : names.items())
    shapes.emplace_back("model.diffusion_model." + name, shape.get<std::vector<int64_t>>());
  return shapes;
}

TEST_F(SingleFiles, of_published_models_have_their_configurations) {
  const std::string file = picture_folder("single_files/published.json");
  const Json published = parse_sorted_json(read_text_file(file, 1 << 20), file);
  const std::pair<const char*, ModelFamily> families[] = {
      {"sd15", ModelFamily::kSd1}, {"sd21", ModelFamily::kSd2}, {"sdxl", ModelFamily::kSdxl}};
  for (const auto& [name, family] : families) {
    const Checkpoint checkpoint = Checkpoint::of_config(name, "{}", published_shapes(published.at(name).at("names")));
    const Signature signature = recognize_single_file(checkpoint);
    EXPECT_EQ(signature.family, family);
    EXPECT_FALSE(signature.autoencoder.has_value());
    EXPECT_TRUE(signature.text_encoders.empty());
    EXPECT_GE(signature.reasons.size(), 2u);
    const Json derived = unet_config(checkpoint, signature);
    const auto of_levels = [&](const Json& value) {  // one number is for all levels
      return value.is_array() ? value : Json(std::vector<Json>(derived.at("block_out_channels").size(), value));
    };
    for (const auto& [field, value] : published.at(name).at("config").items()) {
      if (value.is_null()) {
        EXPECT_FALSE(derived.contains(field)) << name << " " << field;
      } else if (field == "attention_head_dim" || field == "transformer_layers_per_block") {
        EXPECT_EQ(derived.at(field), of_levels(value)) << name << " " << field;
      } else {
        EXPECT_EQ(derived.at(field), value) << name << " " << field;
      }
    }
  }
}

TEST_F(SingleFiles, of_models_like_the_published_ones_are_refused) {
  const std::string file = picture_folder("single_files/published.json");
  const Json published = parse_sorted_json(read_text_file(file, 1 << 20), file);
  const auto refused = [&](const char* name, const char* part, const auto& change) {
    Shapes shapes = published_shapes(published.at(name).at("names"));
    change(shapes);
    const Checkpoint checkpoint = Checkpoint::of_config("a.safetensors", "{}", shapes);
    try {
      unet_config(checkpoint, recognize_single_file(checkpoint));
      ADD_FAILURE() << "accepts " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const auto set = [](const char* name, size_t axis, int64_t length) {
    return [=](Shapes& shapes) {
      for (auto& [tensor, shape] : shapes) {
        if (tensor == std::string("model.diffusion_model.") + name) shape.at(axis) = length;
      }
    };
  };
  const auto add = [](const char* name) {
    return [=](Shapes& shapes) { shapes.emplace_back(name, std::vector<int64_t>{0}); };
  };
  const auto drop = [](const char* part) {
    return [=](Shapes& shapes) {
      std::erase_if(shapes, [&](const auto& row) { return row.first.find(part) != row.first.npos; });
    };
  };
  refused("sd15", "an inpainting model", set("input_blocks.0.0.weight", 1, 9));
  refused("sd15", "InstructPix2Pix", set("input_blocks.0.0.weight", 1, 8));
  refused("sd21", "guided by depth", set("input_blocks.0.0.weight", 1, 5));
  refused("sd21", "an upscaler (x4)", add("model.diffusion_model.label_emb.weight"));
  refused("sdxl", "refiner", set("label_emb.0.0.weight", 1, 2560));
  refused("sdxl", "CosXL", add("edm_vpred.sigma_max"));
  refused("sdxl", "Playground", add("edm_mean"));
  refused("sd15", "no text conditions", drop(".proj_in."));
  refused("sd15", "in the middle block", drop("middle_block.1.transformer_blocks.0.attn2.to_q"));
  refused("sdxl", "different depth", drop("input_blocks.7.1.transformer_blocks.9.attn2.to_q"));
  refused("sdxl", "different depth", drop("output_blocks.1.1.transformer_blocks.9.attn2.to_q"));
  refused("sd15", "different numbers of blocks", drop("input_blocks.11.0."));
  refused("sd15", "out.2.weight", drop("out.2.weight"));
  refused("sd15", "expected 4 axes", [](Shapes& shapes) {
    for (auto& [tensor, shape] : shapes) {
      if (tensor.ends_with("input_blocks.0.0.weight")) shape = {320, 4};
    }
  });
}

TEST_F(SingleFiles, with_v_pred_predict_velocity) {
  write_single_file("sdxl", path("v.safetensors"), {.more = {"v_pred", "ztsnr"}, .stores_config = false});
  const Signature signature = recognize_single_file(Checkpoint::open(path("v.safetensors")));
  EXPECT_TRUE(signature.predicts_velocity);
  EXPECT_TRUE(signature.zero_terminal_snr);
  const Json scheduler = scheduler_config(signature);
  EXPECT_EQ(scheduler.at("prediction_type"), "v_prediction");
  EXPECT_EQ(scheduler.at("timestep_spacing"), "trailing");
  EXPECT_EQ(scheduler.at("_class_name"), "EulerDiscreteScheduler");
  const ExplainedFile explained = explain_single_file(path("v.safetensors"));
  EXPECT_EQ(explained.title, "SDXL");
  EXPECT_EQ(explained.missing.size(), 1u);
  EXPECT_GE(explained.reasons.size(), 8u);
  ASSERT_EQ(signature.text_encoders.size(), 2u);
  const Json text = text_encoder_config(Checkpoint::open(path("v.safetensors")), signature.text_encoders[1], false);
  EXPECT_EQ(text.at("num_hidden_layers"), 4);
  EXPECT_EQ(text.at("projection_dim"), 10);
  EXPECT_EQ(text.at("hidden_act"), "gelu");
}

}  // namespace
}  // namespace gabbro::pictures
