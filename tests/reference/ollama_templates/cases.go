package main

var conversations = []string{
	`[{"role": "user", "content": "Hi"}]`,
	`[{"role": "system", "content": "Be <brief>."}, {"role": "user", "content": "Weather?"}]`,
	`[{"role": "system", "content": "A"}, {"role": "user", "content": "One"}, {"role": "assistant", "content": "Two", "thinking": "hm"}, {"role": "user", "content": "Three"}]`,
	`[{"role": "user", "content": "Weather in Bern & Rome?"}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Bern", "days": 2}}}, {"function": {"name": "weather", "arguments": {"city": "Rome"}}}]}, {"role": "tool", "content": "7 °C", "tool_name": "weather"}, {"role": "tool", "content": "<19>"}]`,
	`[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": ""}, {"role": "system", "content": "late"}, {"role": "user", "content": "c"}]`,
	`[{"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"}]`,
	`[]`,
}

const tools = `[{"type": "function", "function": {"name": "weather", "description": "Tells <it>", "parameters": {"type": "object", "required": ["city"], "properties": {"days": {"type": "integer"}, "city": {"type": "string", "description": "Where", "enum": ["Bern", "Rome"]}}}}}]`

// In the constructs of published models' templates, and in those of the language.
var templates = []string{
	"{{ .Prompt }}",
	"{{ .System }}|{{ .Prompt }}",
	"{{ .System }} {{ .Prompt }}{{ .Response }}!",
	"{{ if .System }}<|system|>\n{{ .System }}</s>\n{{ end }}{{ if .Prompt }}<|user|>\n{{ .Prompt }}</s>\n{{ end }}<|assistant|>\n{{ .Response }}</s>\n",
	"[INST] {{ if .System }}<<SYS>>{{ .System }}<</SYS>>\n\n{{ end }}{{ .Prompt }} [/INST] {{ .Response }}",
	"{{- if .System }}### System:\n{{ .System }}\n{{- end }}\n\n{{- if .Prompt }}\n### User:\n{{ .Prompt }}\n{{- end }}\n### Response:\n{{ if .Response }}{{ .Response }}{{ else }}none{{ end }} end",
	"<|im_start|>system\n{{ .System }}<|im_end|>\n{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n",
	`{{- range $i, $_ := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 }}
{{- if eq .Role "user" }}{{- if and $last $.System }}<s>{{ $.System }}

{{ end }}[INST] {{ .Content }}[/INST]
{{- else if eq .Role "assistant" }}
{{- if .Content }}{{ .Content }}</s>{{- else if .ToolCalls }}[TOOL_CALLS] [
{{- range .ToolCalls }}{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
{{- end }}]</s>
{{- end }}
{{- else if eq .Role "tool" }}[TOOL_RESULTS] {"content": {{ .Content }}}[/TOOL_RESULTS]
{{- end }}
{{- end }}`,
	`{{- if or .System .Tools }}<|start_header_id|>system<|end_header_id|>
{{- if .System }}

{{ .System }}
{{- end }}
{{- if .Tools }}

You may call: {{ range .Tools }}
{{ . }}{{ end }}
{{- end }}<|eot_id|>
{{- end }}
{{- range $i, $m := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 -}}
{{- if eq .Role "user" }}<|start_header_id|>user<|end_header_id|>
{{- if and $.Tools $last }}

Answer with JSON.

{{ range $.Tools }}
{{- . }}
{{ end }}
{{- end }}
{{ $m.Content }}<|eot_id|>{{ if $last }}<|start_header_id|>assistant<|end_header_id|>

{{ end }}
{{- else if eq .Role "assistant" }}<|start_header_id|>assistant<|end_header_id|>
{{- if .ToolCalls }}
{{ range .ToolCalls }}
{"name": "{{ .Function.Name }}", "parameters": {{ .Function.Arguments }}}{{ end }}
{{- else }}

{{ .Content }}
{{- end }}{{ if not $last }}<|eot_id|>{{ end }}
{{- else if eq .Role "tool" }}<|start_header_id|>ipython<|end_header_id|>

{{ .Content }}<|eot_id|>{{ if $last }}<|start_header_id|>assistant<|end_header_id|>

{{ end }}
{{- end }}
{{- end }}`,
	`{{- $lastUserIdx := -1 -}}
{{- range $idx, $msg := .Messages -}}
{{- if eq $msg.Role "user" }}{{ $lastUserIdx = $idx }}{{ end -}}
{{- end }}
{{- if or .System .Tools }}<|im_start|>system
{{ if .System }}{{ .System }}{{ end }}
{{- if .Tools }}
<tools>
{{- range .Tools }}
{"type": "function", "function": {{ .Function }}}
{{- end }}
</tools>
{{- end -}}
<|im_end|>
{{ end }}
{{- range $i, $_ := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 -}}
{{- if eq .Role "user" }}<|im_start|>user
{{ .Content }}
{{- if and $.IsThinkSet (eq $i $lastUserIdx) }}
   {{- if $.Think -}}{{- " "}}/think
   {{- else -}}{{- " "}}/no_think
   {{- end -}}
{{- end }}<|im_end|>
{{ else if eq .Role "assistant" }}<|im_start|>assistant
{{ if (and $.IsThinkSet (and .Thinking (or $last (gt $i $lastUserIdx)))) -}}
<think>{{ .Thinking }}</think>
{{ end -}}
{{ if .Content }}{{ .Content }}
{{- else if .ToolCalls }}<tool_call>
{{ range .ToolCalls }}{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
{{ end }}</tool_call>
{{- end }}{{ if not $last }}<|im_end|>
{{ end }}
{{- else if eq .Role "tool" }}<|im_start|>user
<tool_response>
{{ .Content }}
</tool_response><|im_end|>
{{ end }}
{{- if and (ne .Role "assistant") $last }}<|im_start|>assistant
{{ if and $.IsThinkSet (not $.Think) -}}
<think>

</think>

{{ end -}}
{{ end }}
{{- end }}`,
	"{{/* a comment */}}{{- /* another */ -}}  x {{ with .System }}<{{ . }}>{{ else }}none{{ end }}{{ range .Messages }}{{ .Role }},{{ else }}empty{{ end }}",
	"{{ define \"turn\" }}<{{ .Role }}>{{ .Content }}{{ end }}{{ range .Messages }}{{ template \"turn\" . }}{{ end }}",
	"{{ range $i, $m := .Messages }}{{ if eq $i 2 }}{{ break }}{{ end }}{{ if eq .Role \"system\" }}{{ continue }}{{ end }}{{ $i }}{{ json .Content }}{{ end }}",
	"{{ json .Tools }} {{ .Tools }} {{ len .Messages }} {{ range .Tools }}{{ .Function.Name }} {{ range $name, $p := .Function.Parameters.Properties }}{{ $name }}:{{ $p.Type }} {{ end }}{{ end }}",
	"{{ with index .Messages 0 }}{{ .Role | printf \"%s!\" }}{{ end }}{{ print 1 2 \"a\" \"b\" 3 }}{{ println true }}{{ printf \"%d%%\" 3 }}",
	"{{ $x := 1 }}{{ range .Messages }}{{ $x = len .Content }}{{ end }}{{ $x }} {{ 0x10 }} {{ 1.5 }} {{ -3 }} {{ 'a' }} {{ `r\"aw` }} {{ \"q\\n\\u00e9\\x41\" }} {{ true }}",
	"{{ .Unknown }}|{{ .Unknown.Deeper }}|{{ if .Unknown }}x{{ else }}y{{ end }}{{ range .Messages }}{{ .Content }}{{ end }}",
	"{{ eq 1 2 3 1 }} {{ lt 1 2 }} {{ ge \"b\" \"a\" }} {{ and 1 0 2 }} {{ or 0 \"\" \"x\" }} {{ not 0 }} {{ ne \"a\" \"b\" }}{{ .Prompt }}",
	"{{ slice .Prompt 0 1 }}{{ .Prompt }}",
	"{{ range .Messages }}{{ .Nothing }}{{ end }}",
	"{{ .Prompt.Field }}",
	"{{ eq .Messages 1 }}",
	"{{ if }}x{{ end }}",
	"{{ nothing }}",
	"{{ if .Prompt }}",
	"{{ $undefined }}",
	"{{ end }}",
	"{{ .Prompt",
	"{{ break }}",
	"{{ block \"b\" .System }}[{{ . }}]{{ end }}{{ .Prompt }}{{ .Response }}tail",
	"{{ if .Response }}{{ .Response }}{{ else }}{{ .Prompt }}{{ end }}",
	"{{ range $m := .Messages }}{{ $m.Role }}{{ (index $.Messages 0).Role }};{{ end }}",
	"{{ if and .System (not .Tools) }}S{{ else if .Tools }}T{{ else }}N{{ end }}{{ range .Messages }}{{ end }}",
}
