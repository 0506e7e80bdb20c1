package simengine

import "strings"

type object = map[string]any

// reply is an answer in the words of the OpenAI API.
type reply struct {
	chat      bool
	model, id string
	created   int64 // seconds since 1970
	usage     object
	choices   int
	cut       bool   // it ends because it was bounded
	tool      string // the function that it calls, empty for none
}

const saying = "Every request waits its turn at the gate and none is ever forgotten."

// word is the i-th token of every answer.
func word(i int64) string {
	words := strings.Fields(saying)
	return words[i%int64(len(words))] + " "
}

// whole is an answer that comes at once.
func (r *reply) whole(text string) object {
	choices := make([]object, r.choices)
	for i := range choices {
		choice := object{"index": i, "finish_reason": r.reason(), "logprobs": nil}
		switch {
		case !r.chat:
			choice["text"] = text
		case r.tool != "":
			choice["message"] = object{"role": "assistant", "content": nil, "tool_calls": []object{r.call()}}
		default:
			choice["message"] = object{"role": "assistant", "content": text}
		}
		choices[i] = choice
	}
	o := r.frame(choices, false)
	o["usage"] = r.usage
	return o
}

// opening names the speaker in a chat, once for each choice.
func (r *reply) opening(choice int) object {
	return r.piece(choice, object{"role": "assistant", "content": ""}, nil)
}

// token is one token of a choice.
func (r *reply) token(choice int, text string) object {
	switch {
	case !r.chat:
		return r.frame([]object{{"index": choice, "text": text, "finish_reason": nil, "logprobs": nil}}, true)
	case r.tool != "":
		call := r.call()
		call["index"] = 0
		return r.piece(choice, object{"tool_calls": []object{call}}, nil)
	default:
		return r.piece(choice, object{"content": text}, nil)
	}
}

// closing says why a choice ends.
func (r *reply) closing(choice int) object {
	if !r.chat {
		return r.frame([]object{{"index": choice, "text": "", "finish_reason": r.reason(), "logprobs": nil}}, true)
	}
	return r.piece(choice, object{}, r.reason())
}

// bill is the last piece of a stream if the request asked for the usage.
func (r *reply) bill() object {
	o := r.frame([]object{}, true)
	o["usage"] = r.usage
	return o
}

func (r *reply) piece(choice int, delta object, reason any) object {
	return r.frame([]object{{"index": choice, "delta": delta, "finish_reason": reason, "logprobs": nil}}, true)
}

func (r *reply) frame(choices []object, stream bool) object {
	kind := "text_completion"
	if r.chat {
		kind = "chat.completion"
		if stream {
			kind += ".chunk"
		}
	}
	return object{"id": r.id, "object": kind, "created": r.created, "model": r.model, "choices": choices}
}

func (r *reply) reason() string {
	if r.tool != "" {
		return "tool_calls"
	}
	if r.cut {
		return "length"
	}
	return "stop"
}

func (r *reply) call() object {
	return object{"id": "call_" + r.id, "type": "function", "function": object{"name": r.tool, "arguments": "{}"}}
}
