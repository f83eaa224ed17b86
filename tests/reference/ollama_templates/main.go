// Writes tests/data/templates/ollama.json: what Go's own text/template makes of templates in the language of Ollama's
// TEMPLATE, for conversations, in the manner of Ollama's template/template.go. A case has "template", "messages" and
// "tools", and "text" or, where Go refuses it, "error". Needs Go 1.18 or later.
// Usage: go run main.go cases.go > ../../data/templates/ollama.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"
	"text/template/parse"
)

type Arguments map[string]any

func (a Arguments) String() string { return marshal(a) }

type CallFunction struct {
	Index     int       `json:"-"`
	Name      string    `json:"name"`
	Arguments Arguments `json:"arguments"`
}

func (f CallFunction) String() string { return marshal(f) }

type Call struct {
	ID       string       `json:"-"`
	Function CallFunction `json:"function"`
}

func (c Call) String() string { return marshal(c) }

type Property struct {
	Type        any    `json:"type,omitempty"`
	Items       any    `json:"items,omitempty"`
	Description string `json:"description,omitempty"`
	Enum        []any  `json:"enum,omitempty"`
}

func (p Property) String() string { return marshal(p) }

type Parameters struct {
	Type       string              `json:"type"`
	Required   []string            `json:"required,omitempty"`
	Properties map[string]Property `json:"properties"`
}

func (p Parameters) String() string { return marshal(p) }

type Function struct {
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Parameters  Parameters `json:"parameters"`
}

func (f Function) String() string { return marshal(f) }

type Tool struct {
	Type     string   `json:"type"`
	Items    any      `json:"items,omitempty"`
	Function Function `json:"function"`
}

func (t Tool) String() string { return marshal(t) }

type Tools []Tool

func (t Tools) String() string { return marshal(t) }

type Message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	Thinking   string `json:"thinking,omitempty"`
	Images     []int  `json:"-"`
	ToolCalls  []Call `json:"tool_calls,omitempty"`
	ToolName   string `json:"tool_name,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

type Case struct {
	Template string          `json:"template"`
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Text     *string         `json:"text,omitempty"`
	Error    bool            `json:"error,omitempty"`
}

func marshal(v any) string {
	bytes, _ := json.Marshal(v)
	return string(bytes)
}

func contains(names []string, name string) bool {
	for _, other := range names {
		if other == name {
			return true
		}
	}
	return false
}

// Names of fields and variables, as Ollama collects them.
func identifiers(node parse.Node) []string {
	var names []string
	branch := func(b *parse.BranchNode) {
		names = append(names, identifiers(b.Pipe)...)
		for _, list := range []*parse.ListNode{b.List, b.ElseList} {
			if list != nil {
				names = append(names, identifiers(list)...)
			}
		}
	}
	switch n := node.(type) {
	case *parse.ListNode:
		for _, each := range n.Nodes {
			names = append(names, identifiers(each)...)
		}
	case *parse.TemplateNode:
		if n.Pipe != nil {
			names = identifiers(n.Pipe)
		}
	case *parse.ActionNode:
		names = identifiers(n.Pipe)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			for _, argument := range command.Args {
				names = append(names, identifiers(argument)...)
			}
		}
	case *parse.FieldNode:
		return n.Ident
	case *parse.VariableNode:
		return n.Ident
	}
	return names
}

// The nodes up to the first .Response.
func cut(node parse.Node, done *bool) parse.Node {
	if field, ok := node.(*parse.FieldNode); ok && contains(field.Ident, "Response") {
		*done = true
		return node
	}
	if *done {
		return nil
	}
	list := func(l *parse.ListNode) *parse.ListNode {
		if l == nil {
			return nil
		}
		if kept, ok := cut(l, done).(*parse.ListNode); ok {
			return kept
		}
		return nil
	}
	branch := func(b *parse.BranchNode) {
		b.List = list(b.List)
		b.ElseList = list(b.ElseList)
	}
	switch n := node.(type) {
	case *parse.ListNode:
		var kept []parse.Node
		for _, each := range n.Nodes {
			if c := cut(each, done); c != nil {
				kept = append(kept, c)
			}
		}
		n.Nodes = kept
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.ActionNode:
		for _, command := range n.Pipe.Cmds {
			for _, argument := range command.Args {
				cut(argument, done)
			}
		}
	}
	return node
}

func collate(messages []Message) (string, []*Message) {
	var system []string
	var collated []*Message
	for i := range messages {
		m := messages[i]
		if m.Role == "system" {
			system = append(system, m.Content)
		}
		if last := len(collated) - 1; last >= 0 && collated[last].Role == m.Role && m.Role != "tool" {
			if m.Content != "" {
				collated[last].Content += "\n\n" + m.Content
			}
		} else {
			collated = append(collated, &m)
		}
	}
	return strings.Join(system, "\n\n"), collated
}

func render(source string, messages []Message, tools Tools) (string, error) {
	made, err := template.New("").Option("missingkey=zero").Funcs(template.FuncMap{"json": marshal}).Parse(source)
	if err != nil {
		return "", err
	}
	var names []string
	for _, each := range made.Templates() {
		if each.Tree != nil {
			for _, name := range identifiers(each.Tree.Root) {
				names = append(names, strings.ToLower(name))
			}
		}
	}
	if !contains(names, "messages") && !contains(names, "response") {
		response := &parse.ActionNode{NodeType: parse.NodeAction, Pipe: &parse.PipeNode{NodeType: parse.NodePipe,
			Cmds: []*parse.CommandNode{{NodeType: parse.NodeCommand,
				Args: []parse.Node{&parse.FieldNode{NodeType: parse.NodeField, Ident: []string{"Response"}}}}}}}
		made.Tree.Root.Nodes = append(made.Tree.Root.Nodes, response)
	}
	system, collated := collate(messages)
	thinks := contains(names, "thinking")
	var out bytes.Buffer
	if contains(names, "messages") {
		err := made.Execute(&out, map[string]any{"System": system, "Messages": collated, "Tools": tools, "Response": "",
			"Think": thinks, "ThinkLevel": "", "IsThinkSet": thinks})
		return out.String(), err
	}
	system = ""
	prompt, response := "", ""
	execute := func(t *template.Template) error {
		err := t.Execute(&out, map[string]any{"System": system, "Prompt": prompt, "Response": response, "Think": thinks,
			"ThinkLevel": "", "IsThinkSet": thinks})
		system, prompt, response = "", "", ""
		return err
	}
	for _, m := range collated {
		switch m.Role {
		case "system":
			if prompt != "" || response != "" {
				if err := execute(made); err != nil {
					return "", err
				}
			}
			system = m.Content
		case "user":
			if response != "" {
				if err := execute(made); err != nil {
					return "", err
				}
			}
			prompt = m.Content
		case "assistant":
			response = m.Content
		}
	}
	done := false
	root := cut(made.Tree.Root.Copy(), &done).(*parse.ListNode)
	// Ollama's has no functions and no templates that the source defines, so that it fails where they are called.
	last, err := template.Must(made.Clone()).AddParseTree("", &parse.Tree{Root: root})
	if err != nil {
		return "", err
	}
	err = execute(last)
	return out.String(), err
}

func main() {
	var cases []Case
	for _, source := range templates {
		for i, conversation := range conversations {
			each := Case{Template: source, Messages: json.RawMessage(conversation), Tools: json.RawMessage("null")}
			if i%2 == 1 {
				each.Tools = json.RawMessage(tools)
			}
			var messages []Message
			var given Tools
			for text, target := range map[string]any{conversation: &messages, string(each.Tools): &given} {
				if err := json.Unmarshal([]byte(text), target); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
			text, err := render(source, messages, given)
			if err != nil {
				each.Error = true
			} else {
				each.Text = &text
			}
			cases = append(cases, each)
		}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.Encode(cases)
}
