"""Scripts of the models that the page's tests talk to."""

RICH = """Here is a **short** overview with `code`, *emphasis* and ~~errors~~.

## Steps

1. Measure first
2. Then change *one* thing
   - keep the numbers
   - [ ] write them down
3. Measure again

| format | bits | tokens/s |
|:-------|:----:|---------:|
| F16    | 16   | 61.2     |
| Q4_K_M | 4.8  | 118.7    |

```python
def tokens_per_second(count: int, seconds: float) -> float:
    # The first token is not counted: it belongs to the prompt.
    return (count - 1) / seconds if seconds > 0 else 0.0
```

> A figure without its command is a rumor.

More: https://example.org/guide and [a page](https://example.org "title").
"""

HOSTILE = """<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">

[click](javascript:window.hacked=3) [data](data:text/html,<script>1</script>) ![picture](https://example.org/steal.png?secret)

<a href="javascript:window.hacked=4">html</a> `<b>code</b>` **<i>bold</i>**

```html
<script>window.hacked = 5</script>
```

| <svg onload=window.hacked=6> | b |
|---|---|
| <iframe src="https://example.org"></iframe> | d |
"""


def pieces(text, size=7):
    data = text.encode()
    return [list(data[i:i + size]) for i in range(0, len(data), size)]


def script(token_ms=2, **model):
    """A model that answers the last word of the last message."""
    answers = {
        "ponder": {"tokens": pieces("<think>\nThe user wants a number. Six times seven is forty-two.\n</think>\n\nIt is **42**."), "token_ms": 40},
        "slow": {"tokens": ["word "], "repeat": 3000, "token_ms": 20},
        "broken": {"tokens": ["so", " far"], "fail_after": 2, "error": "the script fails"},
        "hostile": {"tokens": pieces(HOSTILE), "token_ms": 1},
        "table": {"tokens": pieces(RICH), "token_ms": token_ms},
        "long": {"tokens": ["A line of a long answer.\n\n"], "repeat": 80, "token_ms": 1},
    }
    rows = [{"if": f"{word}<|im_end|>\n<|im_start|>assistant", **answer} for word, answer in answers.items()]
    return {"model": {"context": 4096, "bytes": 3_400_000_000, **model}, "answers": [*rows, {"tokens": ["Hel", "lo", " wor", "ld", "!"], "token_ms": token_ms}]}
