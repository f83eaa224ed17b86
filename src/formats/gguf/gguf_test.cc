// The reader against files of gguf-py, and the writer against the same contents.
#include "src/formats/gguf/gguf.h"

#include <algorithm>

#include "src/formats/gguf/gguf_test_support.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/quant/quant.h"

namespace gabbro::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Gguf, ReadsEveryTypeOfMetadata) {
  const File file = File::open(fixture("all_types.gguf"));
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.fields().size(), 18u);
  EXPECT_EQ(file.require_string("general.architecture"), "test");
  EXPECT_EQ(file.require_u32("t.u8"), 250u);
  EXPECT_EQ(file.find("t.i8")->as<int32_t>(), -5);
  EXPECT_EQ(file.require_u32("t.u16"), 65000u);
  EXPECT_EQ(file.find("t.i16")->as<int64_t>(), -300);
  EXPECT_EQ(file.require_u32("t.u32"), 4000000000u);
  EXPECT_EQ(file.find("t.i32")->as<int32_t>(), -2000000000);
  EXPECT_EQ(file.require_u64("t.u64"), 9223372036854775809u);
  EXPECT_EQ(file.find("t.i64")->as<int64_t>(), -4611686018427387904);
  EXPECT_EQ(file.require_f32("t.f32"), 0.1f);
  EXPECT_EQ(file.require_f32("t.f64"), 0.1f);
  EXPECT_EQ(file.find("t.f64")->as<double>(), 0.1);
  EXPECT_TRUE(file.require_bool("t.bool"));
  EXPECT_EQ(file.require_string("t.string"), "gr\u00fc\u00dfe\n");
  EXPECT_THAT(file.strings("t.strings"), ElementsAre("a", "", "\u00df"));
  EXPECT_THAT(file.i32s("t.i32s"), ElementsAre(1, -2, 3));
  EXPECT_THAT(file.f32s("t.f32s"), ElementsAre(0.5f, -1.5f));
  EXPECT_THAT(file.bools("t.bools"), ElementsAre(true, false, true));
  const std::vector<MetadataValue> nested = file.find("t.nested")->elements();
  ASSERT_EQ(nested.size(), 2u);
  EXPECT_THAT(*nested[0].as_vector<int32_t>(), ElementsAre(1, 2));
  EXPECT_THAT(*nested[1].as_vector<uint32_t>(), ElementsAre(3));
  EXPECT_EQ(file.find("t.i32s")->elements(2).size(), 2u);
}

TEST(Gguf, ReadsTensors) {
  const File file = File::open(fixture("all_types.gguf"));
  ASSERT_EQ(file.tensors().size(), 5u);
  const TensorInfo& matrix = file.require_tensor("matrix");
  EXPECT_THAT(matrix.shape, ElementsAre(3, 4));
  EXPECT_EQ(matrix.elements(), 12);
  EXPECT_EQ(matrix.dtype(), DType::f32);
  EXPECT_EQ(matrix.file, file.parts()[0]);
  std::vector<float> values(12);
  dequantize_row(matrix.dtype(), matrix.data.data(), values.data(), 12);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(values[i], i);
  EXPECT_EQ(file.require_tensor("half").dtype(), DType::f16);
  EXPECT_EQ(file.require_tensor("half").data.size(), 10u);
  const TensorInfo& blocks = file.require_tensor("blocks");
  EXPECT_THAT(blocks.shape, ElementsAre(3, 64));
  EXPECT_EQ(blocks.type_name, "Q4_0");
  EXPECT_EQ(blocks.data.size(), 108u);
  EXPECT_EQ(blocks.data[107], std::byte{107});
  EXPECT_THAT(file.require_tensor("last").shape, ElementsAre(2, 1, 4));
  EXPECT_EQ(file.tensor("first"), nullptr);
}

TEST(Gguf, ListsWhatItCannotRun) {
  const File file = File::open(fixture("all_types.gguf"));
  const TensorInfo& tensor = file.require_tensor("unsupported");
  EXPECT_THAT(tensor.shape, ElementsAre(2, 256));
  EXPECT_EQ(tensor.data.size(), 584u);
  EXPECT_EQ(error_of([&] { tensor.dtype(); }),
            fixture("all_types.gguf") + ": tensor 'unsupported': format Q8_K is not supported");
  TensorInfo alone = tensor;
  alone.file = nullptr;
  EXPECT_EQ(error_of([&] { alone.dtype(); }), "tensor 'unsupported': format Q8_K is not supported");
}

TEST(Gguf, ReadsAVocabularyWithoutTensors) {
  const File file = File::open(fixture("vocabulary.gguf"));
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_THAT(file.strings("tokenizer.ggml.tokens"), ElementsAre("<s>", "</s>", "hello", " world"));
  EXPECT_THAT(file.i32s("tokenizer.ggml.token_type"), ElementsAre(3, 3, 1, 1));
  EXPECT_EQ(file.u32_or("tokenizer.ggml.bos_token_id", 9), 0u);
  EXPECT_EQ(file.u32_or("tokenizer.ggml.eos_token_id", 9), 9u);
}

TEST(Gguf, DefaultsStandInForWhatIsMissingAlone) {
  const File file = File::open(fixture("all_types.gguf"));
  EXPECT_EQ(file.u64_or("t.u8", 1), 250u);
  EXPECT_EQ(file.u64_or("nothing", 1), 1u);
  EXPECT_EQ(file.f32_or("nothing", 0.5f), 0.5f);
  EXPECT_TRUE(file.bool_or("nothing", true));
  EXPECT_EQ(file.string_or("nothing", "x"), "x");
  EXPECT_EQ(file.string_or("general.architecture", "x"), "test");
  EXPECT_THAT(error_of([&] { file.u32_or("t.string", 1); }), HasSubstr("string is not u32"));
}

TEST(Gguf, AFieldThatDoesNotFitIsNamedWithItsPlace) {
  const File file = File::open(fixture("all_types.gguf"));
  const std::string path = fixture("all_types.gguf");
  EXPECT_EQ(error_of([&] { file.require_u32("t.i8"); }), path + ": metadata 't.i8' at byte 101: i8 -5 is not u32");
  EXPECT_THAT(error_of([&] { file.require_u32("t.u64"); }), HasSubstr("u64 9223372036854775809 is not u32"));
  EXPECT_THAT(error_of([&] { file.require_f32("t.u8"); }), HasSubstr("u8 250 is not f32"));
  EXPECT_THAT(error_of([&] { file.require_bool("t.f32"); }), HasSubstr("f32 is not bool"));
  EXPECT_THAT(error_of([&] { file.require_string("t.i32s"); }), HasSubstr("array of 3 i32 is not string"));
  EXPECT_THAT(error_of([&] { file.u32s("t.i32s"); }), HasSubstr("array of 3 i32 is not an array of u32"));
  EXPECT_THAT(error_of([&] { file.strings("t.u8"); }), HasSubstr("u8 250 is not an array of string"));
  EXPECT_EQ(error_of([&] { file.require_u32("no\nthing"); }), path + ": metadata 'no?thing' is missing");
  EXPECT_EQ(error_of([&] { file.require_tensor("nothing"); }), path + ": tensor 'nothing' is missing");
}

TEST(Gguf, OneNumberStandsForEveryLayer) {
  const File file = File::open(fixture("plain.gguf"));
  EXPECT_THAT(file.u32_per_layer("a.u32", 3), ElementsAre(7, 7, 7));
  EXPECT_THAT(error_of([&] { file.u32_per_layer("a.i32s", 3); }), HasSubstr("not one for each of 3 layers"));
  EXPECT_THAT(error_of([&] { file.u32_per_layer("a.i32s", 2); }), HasSubstr("not an array of u32"));
}

TEST(Gguf, AFileStaysValidWhenItIsMoved) {
  File first = File::open(fixture("plain.gguf"));
  const File file = std::move(first);
  EXPECT_EQ(file.require_u32("a.u32"), 7u);
  EXPECT_EQ(file.require_tensor("one").data.size(), 24u);
}

TEST(Gguf, ReadsVersion2) {
  Bytes file;
  file.header(0, 1, 2).field("k", ValueType::u32).put<uint32_t>(5);
  const Part part = parse(as_span(file.text()), "x.gguf");
  EXPECT_EQ(part.version, 2u);
  EXPECT_EQ(part.find("k")->as<uint32_t>(), 5u);
}

// gguf-py's file of the same contents is the reference, byte for byte.
TEST(GgufWriter, WritesWhatGgufPyWrites) {
  const float one[6] = {0, 1, 2, 3, 4, 5};
  const uint16_t two[3] = {0, 0x3c00, 0x4000};
  Writer writer;
  writer.add_string("general.architecture", "test");
  writer.add_u32("a.u32", 7);
  writer.add_integer("a.i16", ValueType::i16, -7);
  writer.add_f32("a.f32", 1.5f);
  writer.add_f64("a.f64", 2.5);
  writer.add_bool("a.bool", false);
  writer.add_strings("a.strings", std::vector<std::string_view>{"x", "yz"});
  writer.add_i32s("a.i32s", std::vector<int32_t>{-1, 2});
  writer.add_f32s("a.f32s", std::vector<float>{0.25f, 4.0f});
  writer.add_tensor("one", ggml_type_number(DType::f32), std::vector<int64_t>{2, 3}, std::as_bytes(std::span(one)));
  writer.add_tensor("two", ggml_type_number(DType::f16), std::vector<int64_t>{3}, std::as_bytes(std::span(two)));
  const std::string expected = read_file(fixture("plain.gguf"));
  const std::vector<std::byte> bytes = writer.bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), expected);
  const TemporaryFolder folder;
  writer.write(folder / "plain.gguf");
  EXPECT_EQ(read_file(folder / "plain.gguf"), expected);
}

TEST(GgufWriter, CopiesTheFieldsOfAnotherFile) {
  const File file = File::open(fixture("all_types.gguf"));
  Writer writer;
  for (const MetadataField& field : file.fields()) writer.add_value(field.key, *field.value.gguf());
  for (const TensorInfo& tensor : file.tensors()) {
    writer.add_tensor(tensor.name, tensor.ggml_type, tensor.shape, tensor.data);
  }
  const std::vector<std::byte> bytes = writer.bytes();
  const auto original = file.parts()[0]->bytes();
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), original.begin(), original.end()));
}

TEST(GgufWriter, AlignsAsItSays) {
  const std::vector<std::byte> data(68);
  Writer writer(256);
  writer.add_u32s("u32s", std::vector<uint32_t>{1, 4000000000});
  writer.add_tensor("scalar", ggml_type_number(DType::f32), {}, std::span(data).first(4));
  writer.add_tensor("a", ggml_type_number(DType::q8_0), std::vector<int64_t>{2, 32}, data);
  const std::vector<std::byte> bytes = writer.bytes();
  const Part part = parse(bytes, "x.gguf");
  EXPECT_EQ(part.alignment, 256u);
  EXPECT_THAT(*part.find("u32s")->as_vector<uint32_t>(), ElementsAre(1, 4000000000));
  ASSERT_EQ(part.tensors.size(), 2u);
  EXPECT_TRUE(part.tensors[0].shape.empty());
  EXPECT_EQ(part.tensors[0].elements(), 1);
  for (const TensorInfo& tensor : part.tensors) EXPECT_EQ((tensor.data.data() - bytes.data()) % 256, 0);
}

TEST(GgufWriter, RefusesWhatNoReaderWouldTake) {
  const std::vector<std::byte> data(36);
  const auto shape = [](std::vector<int64_t> dimensions) { return dimensions; };
  Writer writer;
  writer.add_u32("k", 1);
  EXPECT_THAT(error_of([&] { writer.add_u32("k", 2); }), HasSubstr("'k' is there twice"));
  EXPECT_THAT(error_of([&] { writer.add_integer("f", ValueType::f32, 1); }),
              HasSubstr("f32 is not a type of integers"));
  EXPECT_THAT(error_of([&] { writer.add_integer("i", ValueType::u8, 256); }), HasSubstr("256 does not fit u8"));
  EXPECT_THAT(error_of([&] { writer.add_integer("i", ValueType::u64, -1); }), HasSubstr("-1 does not fit u64"));
  EXPECT_THAT(error_of([&] { writer.add_tensor("t", 4, shape({2}), data); }), HasSubstr("ggml type 4 is not known"));
  EXPECT_THAT(error_of([&] { writer.add_tensor("t", 2, shape({2, 31}), data); }), HasSubstr("not what its shape"));
  EXPECT_THAT(error_of([&] { writer.add_tensor("t", 2, shape({3, 32}), data); }), HasSubstr("not what its shape"));
  EXPECT_THAT(error_of([&] { writer.add_tensor("t", 2, shape({-2, -32}), data); }), HasSubstr("not what its shape"));
  EXPECT_THAT(error_of([] { Writer(24); }), HasSubstr("alignment of 24"));
  EXPECT_THAT(error_of([] { ggml_type_number(DType::boolean); }), HasSubstr("no element type bool"));
}

// Sizes that the readers of such files have to agree on; all formats that we run are as large as dtype.h says.
TEST(GgmlType, KnowsEveryNumberInUse) {
  int known = 0;
  for (uint32_t number = 0; number < 64; ++number) {
    const GgmlType* type = find_ggml_type(number);
    if (type == nullptr) continue;
    ++known;
    EXPECT_EQ(type->number, number);
    EXPECT_GT(type->block_bytes, 0u);
    if (type->dtype) {
      EXPECT_EQ(ggml_type_number(*type->dtype), number);
    }
  }
  EXPECT_EQ(known, 43 - 8);  // GGML_TYPE_COUNT less those that were removed: 4, 5, 31-33, 36-38
}

}  // namespace
}  // namespace gabbro::gguf
