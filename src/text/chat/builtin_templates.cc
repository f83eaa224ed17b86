#include "src/text/chat/builtin_templates.h"

#include <algorithm>

namespace gabbro::text {
namespace {

// Line breaks are written as {{ '\n' }}: the templates do not depend on how Jinja trims blocks.
constexpr BuiltinTemplate kTemplates[] = {
    {"chatglm3", R"([gMASK]sop{% for m in messages %}<|{{ m.role }}|>{{ '\n ' }}{{ m.content }}{% endfor %})"
                 R"({% if add_generation_prompt %}<|assistant|>{% endif %})"},
    {"chatglm4", R"([gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>{{ '\n' }}{{ m.content }}{% endfor %})"
                 R"({% if add_generation_prompt %}<|assistant|>{{ '\n' }}{% endif %})"},
    {"chatml", R"({% for m in messages %}<|im_start|>{{ m.role }}{{ '\n' }}{{ m.content }}<|im_end|>{{ '\n' }})"
               R"({% endfor %}{% if add_generation_prompt %}<|im_start|>assistant{{ '\n' }}{% endif %})"},
    {"command-r", R"({% for m in messages %}{% if m.role == 'system' %}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>)"
                  R"({{ m.content | trim }}<|END_OF_TURN_TOKEN|>{% elif m.role == 'user' %})"
                  R"(<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{ m.content | trim }}<|END_OF_TURN_TOKEN|>{% else %})"
                  R"(<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{{ m.content | trim }}<|END_OF_TURN_TOKEN|>{% endif %})"
                  R"({% endfor %}{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %})"},
    {"deepseek", R"({% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %})"
                 R"(### Instruction:{{ '\n' }}{{ m.content }}{{ '\n' }}{% else %}### Response:{{ '\n' }})"
                 R"({{ m.content }}{{ '\n' }}<|EOT|>{{ '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %})"
                 R"(### Response:{{ '\n' }}{% endif %})"},
    {"deepseek2", R"({% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{{ '\n\n' }})"
                  R"({% elif m.role == 'user' %}User: {{ m.content }}{{ '\n\n' }}{% else %}Assistant: {{ m.content }})"
                  R"(<｜end▁of▁sentence｜>{% endif %}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %})"},
    {"deepseek3",
     R"({% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{{ '\n\n' }})"
     R"({% elif m.role == 'user' %}<｜User｜>{{ m.content }}{% else %}<｜Assistant｜>{{ m.content }})"
     R"(<｜end▁of▁sentence｜>{% endif %}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜>{% endif %})"},
    {"exaone3", R"({% for m in messages %}{% if m.role == 'system' %}[|system|]{{ m.content | trim }}[|endofturn|])"
                R"({{ '\n' }}{% elif m.role == 'user' %}[|user|]{{ m.content | trim }}{{ '\n' }}{% else %})"
                R"([|assistant|]{{ m.content | trim }}[|endofturn|]{{ '\n' }}{% endif %}{% endfor %})"
                R"({% if add_generation_prompt %}[|assistant|]{% endif %})"},
    {"falcon3", R"({% for m in messages %}<|{{ m.role }}|>{{ '\n' }}{{ m.content }}{{ '\n' }}{% endfor %})"
                R"({% if add_generation_prompt %}<|assistant|>{{ '\n' }}{% endif %})"},
    {"gemma", R"({% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %})"
              R"({% set ns.system = m.content | trim %}{% else %}<start_of_turn>)"
              R"({{ 'model' if m.role == 'assistant' else m.role }}{{ '\n' }})"
              R"({% if ns.system and m.role == 'user' %}{{ ns.system }}{{ '\n\n' }}{% set ns.system = '' %})"
              R"({% endif %}{{ m.content | trim }}<end_of_turn>{{ '\n' }}{% endif %}{% endfor %})"
              R"({% if add_generation_prompt %}<start_of_turn>model{{ '\n' }}{% endif %})"},
    {"gpt-oss", R"({% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final)"
                R"({% endif %}<|message|>{{ m.content }})"
                R"({{ '<|return|>' if m.role == 'assistant' and loop.last else '<|end|>' }}{% endfor %})"
                R"({% if add_generation_prompt %}<|start|>assistant{% endif %})"},
    {"granite", R"({% for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }})"
                R"(<|end_of_text|>{{ '\n' }}{% endfor %}{% if add_generation_prompt %})"
                R"(<|start_of_role|>assistant<|end_of_role|>{% endif %})"},
    {"llama2", R"({% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'assistant' %} )"
               R"({{ m.content | trim }} </s>{% set ns.open = false %}{% else %}{% if not ns.open %})"
               R"({{ '' if loop.first else bos_token }}[INST] {% set ns.open = true %}{% endif %})"
               R"({% if m.role == 'system' %}{{ '<<SYS>>\n' }}{{ m.content | trim }}{{ '\n<</SYS>>\n\n' }})"
               R"({% else %}{{ m.content | trim }} [/INST]{% endif %}{% endif %}{% endfor %})"},
    {"llama3", R"({% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ '\n\n' }})"
               R"({{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %})"
               R"(<|start_header_id|>assistant<|end_header_id|>{{ '\n\n' }}{% endif %})"},
    {"llama4", R"({% for m in messages %}<|header_start|>{{ m.role }}<|header_end|>{{ '\n\n' }})"
               R"({{ m.content | trim }}<|eot|>{% endfor %}{% if add_generation_prompt %})"
               R"(<|header_start|>assistant<|header_end|>{{ '\n\n' }}{% endif %})"},
    {"megrez", R"({% for m in messages %}<|role_start|>{{ m.role }}<|role_end|>{{ m.content }}<|turn_end|>)"
               R"({% endfor %}{% if add_generation_prompt %}<|role_start|>assistant<|role_end|>{% endif %})"},
    {"minicpm", R"({% for m in messages %}{% if m.role == 'user' %}<用户>{{ m.content | trim }}<AI>{% else %})"
                R"({{ m.content | trim }}{% endif %}{% endfor %})"},
    {"mistral", R"({% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'assistant' %} )"
                R"({{ m.content | trim }}</s>{% set ns.open = false %}{% else %}{% if not ns.open %}[INST] )"
                R"({% set ns.open = true %}{% endif %}{{ m.content }}{% if m.role == 'system' %}{{ '\n\n' }})"
                R"({% else %}[/INST]{% endif %}{% endif %}{% endfor %})"},
    {"mistral-v1", R"({% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'assistant' %} )"
                   R"({{ m.content }}</s>{% set ns.open = false %}{% else %}{% if not ns.open %} [INST] )"
                   R"({% set ns.open = true %}{% endif %}{{ m.content }}{% if m.role == 'system' %}{{ '\n\n' }})"
                   R"({% else %} [/INST]{% endif %}{% endif %}{% endfor %})"},
    {"mistral-v3", R"({% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'assistant' %} )"
                   R"({{ m.content | trim }}</s>{% set ns.open = false %}{% else %}{% if not ns.open %}[INST] )"
                   R"({% set ns.open = true %}{% endif %}{{ m.content }}{% if m.role == 'system' %}{{ '\n\n' }})"
                   R"({% else %}[/INST]{% endif %}{% endif %}{% endfor %})"},
    {"mistral-v3-tekken", R"({% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'assistant' %})"
                          R"({{ m.content }}</s>{% set ns.open = false %}{% else %}{% if not ns.open %}[INST])"
                          R"({% set ns.open = true %}{% endif %}{{ m.content }}{% if m.role == 'system' %}{{ '\n\n' }})"
                          R"({% else %}[/INST]{% endif %}{% endif %}{% endfor %})"},
    {"mistral-v7", R"({% for m in messages %}{% if m.role == 'system' %}[SYSTEM_PROMPT] {{ m.content }})"
                   R"([/SYSTEM_PROMPT]{% elif m.role == 'user' %}[INST] {{ m.content }}[/INST]{% else %} )"
                   R"({{ m.content }}</s>{% endif %}{% endfor %}{% if add_generation_prompt %}{% endif %})"},
    {"mistral-v7-tekken",
     R"({% for m in messages %}{% if m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT])"
     R"({% elif m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}{{ m.content }}</s>{% endif %})"
     R"({% endfor %}{% if add_generation_prompt %}{% endif %})"},
    {"monarch", R"({% for m in messages %}{{ '' if loop.first else bos_token }}{{ m.role }}{{ '\n' }})"
                R"({{ m.content }}{{ eos_token }}{{ '\n' }}{% endfor %}{% if add_generation_prompt %})"
                R"({{ bos_token }}assistant{{ '\n' }}{% endif %})"},
    {"openchat", R"({% for m in messages %}{% if m.role == 'system' %}{{ m.content }}<|end_of_turn|>)"
                 R"({% elif m.role == 'user' %}GPT4 Correct User: {{ m.content }}<|end_of_turn|>{% else %})"
                 R"(GPT4 Correct Assistant: {{ m.content }}<|end_of_turn|>{% endif %}{% endfor %})"
                 R"({% if add_generation_prompt %}GPT4 Correct Assistant:{% endif %})"},
    {"orion", R"({% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}</s>)"
              R"({% elif m.role == 'system' %}{{ m.content }}{{ '\n\n' }}{% else %}Human: {{ m.content }})"
              R"({{ '\n\nAssistant: ' }}</s>{% endif %}{% endfor %})"},
    {"phi3", R"({% for m in messages %}<|{{ m.role }}|>{{ '\n' }}{{ m.content }}<|end|>{{ '\n' }}{% endfor %})"
             R"({% if add_generation_prompt %}<|assistant|>{{ '\n' }}{% endif %})"},
    {"phi4", R"({% for m in messages %}<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>{% endfor %})"
             R"({% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %})"},
    {"vicuna", R"({% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{{ '\n\n' }})"
               R"({% elif m.role == 'user' %}USER: {{ m.content }}{{ '\n' }}{% else %}ASSISTANT: {{ m.content }})"
               R"(</s>{{ '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %})"},
    {"vicuna-orca", R"({% for m in messages %}{% if m.role == 'system' %}SYSTEM: {{ m.content }}{{ '\n' }})"
                    R"({% elif m.role == 'user' %}USER: {{ m.content }}{{ '\n' }}{% else %}ASSISTANT: {{ m.content }})"
                    R"(</s>{{ '\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %})"},
    {"zephyr", R"({% for m in messages %}<|{{ m.role }}|>{{ '\n' }}{{ m.content }}{{ eos_token }}{{ '\n' }})"
               R"({% endfor %}{% if add_generation_prompt %}<|assistant|>{{ '\n' }}{% endif %})"},
};

}  // namespace

std::span<const BuiltinTemplate> builtin_templates() { return kTemplates; }

std::optional<std::string_view> find_builtin_template(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTemplates), std::end(kTemplates),
                                   [&](const BuiltinTemplate& t) { return t.name == name; });
  return found == std::end(kTemplates) ? std::nullopt : std::optional(found->source);
}

}  // namespace gabbro::text
