package simengine

import "strings"

type object = map[string]any

// reply is an answer in the words of the OpenAI API.
type reply struct {
	chat      bool
	model, id string
	usage     object
}

const saying = "Every request waits its turn at the gate and none is ever forgotten."

// word is the i-th token of every answer.
func word(i int64) string {
	words := strings.Fields(saying)
	return words[i%int64(len(words))] + " "
}

func (r *reply) whole(text string) object {
	choice := object{"index": 0, "finish_reason": "length", "logprobs": nil}
	kind := "text_completion"
	if r.chat {
		kind = "chat.completion"
		choice["message"] = object{"role": "assistant", "content": text}
	} else {
		choice["text"] = text
	}
	return object{"id": r.id, "object": kind, "created": 0, "model": r.model, "choices": []object{choice}, "usage": r.usage}
}

func (r *reply) piece(text string, last bool) object {
	choice := object{"index": 0, "finish_reason": nil}
	kind := "text_completion"
	if r.chat {
		kind = "chat.completion.chunk"
		choice["delta"] = object{"content": text}
	} else {
		choice["text"] = text
	}
	o := object{"id": r.id, "object": kind, "created": 0, "model": r.model, "choices": []object{choice}}
	if last {
		choice["finish_reason"] = "length"
		o["usage"] = r.usage
	}
	return o
}
