// The configuration of a text encoder: the sizes and the choices in which families differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/models/llm/decoder_config.h"

namespace gabbro::encoder {

using llm::Activation;
using llm::ConfigReader;
using llm::FieldName;
using llm::ModelRope;
using llm::ModelShape;
using llm::NormKind;
using llm::QkNorm;
using llm::TransformersLayout;
using llm::WeightName;
using llm::WeightSource;

// How the tokens of a text become one vector; or, by kRank, scores of a classifier.
enum class Pooling { kNone, kMean, kCls, kLast, kMax, kRank };

// Added to the scores by the distance between two tokens, one for each head.
enum class DistanceBias {
  kNone,
  kAlibi,   // -slope · |j - i| (Press et al. 2022, both directions)
  kBuckets  // learned for ranges of distances (Raffel et al. 2020)
};

// Buckets of distances: half of them exact, the others grow logarithmically up to `farthest` tokens. `both_directions`:
// the first half of the buckets is for keys up to the query, the second for those after it.
struct BucketConfig {
  int64_t count = 32;
  int64_t farthest = 128;
  bool both_directions = true;
};

// In what the layers of a model differ.
struct EncoderLayer {
  int64_t window = 0;       // tokens on each side that attention sees; 0: all
  bool local_rope = false;  // rotary embeddings of local_rope instead of rope
};

// The classifier of rerankers: scores = output(norm(activation(dense(pooled)))).
struct HeadConfig {
  int64_t labels = 0;  // 0: there is none
  Activation activation = Activation::kTanh;
  Pooling pooling = Pooling::kCls;
};

struct EncoderConfig {
  ModelShape shape;
  NormKind norm = NormKind::kLayer;
  float norm_epsilon = 1e-12f;
  bool norm_first = false;       // norms stand before attention and feed-forward block, else after their sums
  bool first_layer_norm = true;  // of norm_first: layer 0 has a norm before attention
  bool final_norm = false;       // after the last layer
  bool causal = false;           // tokens see none after them

  bool learned_positions = false;  // embeddings of positions are added to token embeddings
  int64_t position_offset = 0;     // of transformers' rows, which begin with that many unused ones (RoBERTa)
  int64_t token_types = 0;         // rows of the embeddings of types; 0: there are none
  bool embedding_norm = true;
  bool rotated = false;
  ModelRope rope;
  std::optional<ModelRope> local_rope;
  DistanceBias bias = DistanceBias::kNone;
  float largest_alibi_exponent = 8;
  BucketConfig buckets;

  QkNorm qk_norm = QkNorm::kNone;
  float attention_scale = 0;  // on the scores
  std::vector<EncoderLayer> layers;

  Activation activation = Activation::kGelu;
  Activation usual_activation = Activation::kGelu;  // the one of GGUF files of this architecture, which do not say it
  bool gated = false;
  int64_t experts_every = 0;   // layers i with i % every = 1 have experts instead (encoder_experts.h); 0: none do
  bool experts_bias = false;   // of the experts' sum
  std::string architecture{};  // general.architecture of GGUF, where it is not the family's first

  Pooling pooling = Pooling::kMean;  // where no file says another
  bool normalized = true;            // the same of the vectors' length
  bool answers = false;              // a language model, which reranks by its logits of "yes" and "no" after a question
  int separators = 1;                // end tokens between the two texts of a pair
  HeadConfig head;
  int64_t projection = 0;  // width of what pooled vectors become by a matrix (CLIP); 0: there is none

  // Names of tensors that differ from the usual ones.
  std::string layer_prefix = "blk.";
  std::string attn_output_name = "attn_output";
  std::string bias_name = "attn_rel_b";
  bool bias_in_layer = true;  // the table of kBuckets belongs to layer 0, else to the model
  std::string output_norm_name = "output_norm";
};

// The fields that families share: sizes, the epsilon of the norms, the scale of attention, the largest length. `names`
// are the family's, `activation` is its own where no field says another. Throws bad_input that names the file and the
// field.
EncoderConfig read_encoder_config(const ConfigReader& fields, std::span<const WeightName> names,
                                  Activation activation = Activation::kGelu);

// Refuses a head of odd length, whose elements make no pairs to rotate.
void require_pairs(const ConfigReader& fields, const EncoderConfig& config);

// Rows of a matrix, by its name in GGUF; 0 where the checkpoint has none.
int64_t read_rows(const ConfigReader& fields, std::span<const WeightName> names, const char* name);

// The first class that config.json's "architectures" names; "": it names none.
std::string architecture_class(const ConfigReader& fields);

}  // namespace gabbro::encoder
