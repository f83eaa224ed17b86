"""Conversations that exercise chat templates: system messages, turns, tools, tool calls, reasoning, parts, unicode."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city, e.g. \"Zürich\" & <others>.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "City\nname"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                    "days": {"type": ["integer", "null"], "minimum": 0.5},
                    "where": {
                        "type": "object",
                        "properties": {"lat": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
                        "required": ["lat"],
                    },
                },
                "required": ["city"],
            },
            "return": {"type": "string", "description": "text"},
        },
    },
    {"type": "function", "function": {"name": "now", "description": "Time.", "parameters": {"type": "object", "properties": {}}}},
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, id="call_abc1d"):
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}


UNICODE = "Grüße, 世界! 🌍 “quotes” \u00a0 \t tabs\nnew line  "

CONVERSATIONS = {
    "one": [user("Hello")],
    "system": [system("You are brief."), user("Hello")],
    "turns": [user("Hi"), assistant("Hello!"), user("And?"), assistant("Fine."), user("Bye")],
    "system_turns": [system(" Be kind. "), user("Hi\n"), assistant(" Hello! "), user("Bye")],
    "ends_with_assistant": [user("Hi"), assistant("Hello!")],
    "unicode": [system(UNICODE), user(UNICODE), assistant(UNICODE), user("<|im_end|> </s> {{ x }}")],
    "empty": [user("")],
    "none": [],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "text", "text": "Say."}]}],
    "image": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}],
    "parts_turns": [
        {"role": "system", "content": [{"type": "text", "text": "Short."}]},
        {"role": "user", "content": [{"type": "text", "text": "A"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "B"}]},
        {"role": "user", "content": [{"type": "text", "text": "C"}]},
    ],
    "developer": [{"role": "developer", "content": "Rules."}, user("Hi")],
    "bad_order": [user("a"), user("b"), assistant("c"), assistant("d")],
    "unknown_role": [{"role": "narrator", "content": "Once."}, user("Hi")],
    "no_content": [user("Hi"), {"role": "assistant"}, user("Yes?")],
    "tool_call": [
        user("Weather?"),
        assistant(None, tool_calls=[call("get_weather", {"city": "Zürich", "days": 2, "where": {"lat": 1.5, "tags": ["a"]}})]),
        {"role": "tool", "name": "get_weather", "tool_call_id": "call_abc1d", "content": "{\"t\": 21.5}"},
        assistant("It is 21.5 degrees."),
        user("Thanks"),
    ],
    "tool_call_text": [
        system("Use tools."),
        user("Weather?"),
        assistant("Let me see.", tool_calls=[call("get_weather", "{\"city\": \"Bern\"}", "abcdefghi")]),
        {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "rain"},
    ],
    "two_tool_calls": [
        user("Both?"),
        assistant("", tool_calls=[call("get_weather", {"city": "A"}, "aaaaaaaa1"), call("now", {}, "aaaaaaaa2")]),
        {"role": "tool", "name": "get_weather", "tool_call_id": "aaaaaaaa1", "content": "sun"},
        {"role": "tool", "name": "now", "tool_call_id": "aaaaaaaa2", "content": {"hour": 12, "zone": None, "dst": True}},
        assistant("Sun at noon."),
    ],
    "open_tool_call": [user("Weather?"), assistant(None, tool_calls=[call("get_weather", {"city": "x", "ok": True, "n": None})])],
    "tool_role_only": [user("x"), {"role": "tool", "content": "result", "tool_call_id": "1"}],
    "reasoning": [
        user("2+2?"),
        assistant("4", reasoning_content="Add two\nand two.", thinking="Add.", reasoning="Hm."),
        user("3+3?"),
        assistant("<think>\nThree and three.\n</think>\n\n6"),
        user("Sure?"),
    ],
    "reasoning_tools": [
        user("Weather?"),
        assistant("", reasoning_content="I need a tool.", thinking="I need it.", tool_calls=[call("get_weather", {"city": "X"})]),
        {"role": "tool", "content": "snow", "tool_call_id": "call_abc1d", "name": "get_weather"},
    ],
}

EXTRAS = [
    {},
    {"enable_thinking": False, "thinking": True, "reasoning_effort": "high", "builtin_tools": ["browser", "python"]},
    {"enable_thinking": True, "documents": [{"title": "T", "text": "Body", "id": 1}], "date_string": "26 Jul 2024"},
]


def cases():
    """(name, variables) of every conversation, with and without tools and generation prompt."""
    for name, messages in CONVERSATIONS.items():
        for tools in (None, TOOLS):
            for prompt in (False, True):
                for index, extra in enumerate(EXTRAS):
                    if index and (name in ("none", "image", "unknown_role") or (tools and not prompt)):
                        continue
                    variables = {
                        "documents": None,
                        "bos_token": "<s>",
                        "eos_token": "</s>",
                        **extra,
                        "messages": messages,
                        "tools": tools,
                        "add_generation_prompt": prompt,
                    }
                    yield f"{name}{'+tools' if tools else ''}{'+prompt' if prompt else ''}+{index}", variables
