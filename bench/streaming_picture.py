"""Draws what a streamed model did when, from times that a run recorded:

    GABBRO_STREAM_TIMES=times.json gabbro run MODEL --memory 1GiB ...
    python3 bench/streaming_picture.py times.json picture.svg --from 4 --seconds 3

One row each for reads, packing and computing; the colors alternate by layer. The document may also be one that
`--save` made: the events of the seconds that are drawn."""
import argparse
import json

WIDTH, LEFT, ROW, GAP, TOP = 960, 90, 44, 14, 64
ROWS = {"read": "reads", "pack": "packing", "compute": "computing"}
COLORS = {"read": ("#2a6fb0", "#8fbfe8"), "pack": ("#b06a1f", "#ecc08a"), "compute": ("#2f8a4c", "#93d3a6")}


def merged(spans, gap):
    """Spans of one layer that overlap, or nearly touch, as one."""
    out = []
    for layer, begin, end in sorted(spans, key=lambda span: span[1]):
        if out and out[-1][0] == layer and begin <= out[-1][2] + gap:
            out[-1][2] = max(out[-1][2], end)
        else:
            out.append([layer, begin, end])
    return out


def busy(spans, first, last):
    """The share of the time in which any of the spans is under way."""
    total, reached = 0.0, first
    for _, begin, end in sorted(spans, key=lambda span: span[1]):
        begin, end = max(begin, reached), min(end, last)
        total += max(0.0, end - begin)
        reached = max(reached, end)
    return total / (last - first)


def ticks(seconds):
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 1e9) if seconds / s <= 10)
    return [step * i for i in range(int(seconds / step + 1e-9) + 1)]


def draw(events, first, last):
    scale = (WIDTH - LEFT - 20) / (last - first)
    at = lambda seconds: LEFT + (min(max(seconds, first), last) - first) * scale
    height = TOP + len(ROWS) * (ROW + GAP) + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
           'font-family="sans-serif" font-size="13">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    read = sum(bytes_ * (min(end, last) - max(begin, first)) / max(end - begin, 1e-9)
               for kind, _, begin, end, bytes_ in events if kind == "read" and end > first and begin < last)
    out.append(f'<text x="{LEFT}" y="24" font-size="15">Streaming, {last - first:.3g} seconds of a run: '
               f'{read / (last - first) / 1e9:.2f} GB/s are read</text>')
    out.append(f'<text x="{LEFT}" y="44" fill="#555">colors alternate by layer</text>')
    for number, (kind, label) in enumerate(ROWS.items()):
        y = TOP + number * (ROW + GAP)
        spans = [(layer, begin, end) for k, layer, begin, end, _ in events if k == kind]
        out.append(f'<text x="{LEFT - 10}" y="{y + 18}" text-anchor="end">{label}</text>')
        out.append(f'<text x="{LEFT - 10}" y="{y + 35}" text-anchor="end" fill="#555" font-size="11">'
                   f'{100 * busy(spans, first, last):.0f} % busy</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 20}" height="{ROW}" fill="#f2f2f2"/>')
        for layer, begin, end in merged(spans, 0.5 / scale):
            if end < first or begin > last:
                continue
            width = max(at(end) - at(begin), 0.5)
            # Reads of two layers overlap: each color has its own half of the row.
            part, shift = (ROW / 2, (layer % 2) * ROW / 2) if kind == "read" else (ROW, 0)
            out.append(f'<rect x="{at(begin):.1f}" y="{y + shift:.1f}" width="{width:.1f}" height="{part:.1f}" '
                       f'fill="{COLORS[kind][layer % 2]}"/>')
    y = TOP + len(ROWS) * (ROW + GAP)
    for tick in ticks(last - first):
        x = LEFT + tick * scale
        out.append(f'<path d="M{x:.1f} {TOP} V{y}" stroke="#bbb" stroke-dasharray="2 3"/>')
        out.append(f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle">{tick:g} s</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="first", type=float, default=0)
    parser.add_argument("--seconds", type=float, help="default: to the end")
    parser.add_argument("--save", help="writes the events that are drawn, as a small document")
    options = parser.parse_args()
    with open(options.times) as file:
        events = json.load(file)["events"]
    last = options.first + options.seconds if options.seconds else max(event[3] for event in events)
    events = [event for event in events if event[3] > options.first and event[2] < last]
    with open(options.picture, "w") as file:
        file.write(draw(events, options.first, last))
    if options.save:
        shifted = [[kind, layer, round(begin - options.first, 4), round(end - options.first, 4), size]
                   for kind, layer, begin, end, size in events]
        with open(options.save, "w") as file:
            rows = [shifted[i : i + 4] for i in range(0, len(shifted), 4)]
            lines = (", ".join(json.dumps(event) for event in row) for row in rows)
            file.write('{"events": [\n' + ",\n".join(lines) + "]}\n")


if __name__ == "__main__":
    main()
